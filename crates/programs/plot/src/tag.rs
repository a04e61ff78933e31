//! XML elements that are well-formed by construction.

use std::fmt::Write;

/// An element.
#[derive(Clone, Debug)]
pub struct Tag {
    name: &'static str,
    attributes: String,
    content: String,
}

impl Tag {
    /// Creates an empty element.
    pub const fn new(name: &'static str) -> Self {
        Self { name, attributes: String::new(), content: String::new() }
    }

    /// Adds an attribute.
    #[must_use]
    pub fn set(mut self, name: &str, value: &str) -> Self {
        let _ = write!(self.attributes, " {name}=\"{}\"", escape(value));
        self
    }

    /// Adds an attribute that is a coordinate or a length.
    #[must_use]
    pub fn at(self, name: &str, value: f64) -> Self {
        self.set(name, &coordinate(value))
    }

    /// Adds a text.
    #[must_use]
    pub fn text(mut self, text: &str) -> Self {
        self.content += &escape(text);
        self
    }

    /// Adds an element.
    #[must_use]
    pub fn child(mut self, child: &Self) -> Self {
        self.push(child);
        self
    }

    /// Adds an element.
    pub fn push(&mut self, child: &Self) {
        let _ = write!(self.content, "{child}");
    }

    /// Adds content that is already XML.
    #[must_use]
    pub fn raw(mut self, xml: &str) -> Self {
        self.content += xml;
        self
    }
}

impl std::fmt::Display for Tag {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { name, attributes, content } = self;
        if content.is_empty() {
            write!(out, "<{name}{attributes}/>")
        } else {
            write!(out, "<{name}{attributes}>{content}</{name}>")
        }
    }
}

/// Escapes a text for XML and HTML, in content and in attributes. Characters that XML does not allow are removed.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\'' => out += "&#39;",
            '\n' | '\t' => out.push(c),
            '\u{fffe}' | '\u{ffff}' => {}
            c if c.is_control() => {}
            c => out.push(c),
        }
    }
    out
}

/// Formats a coordinate with two decimals, or 0 if it is not finite.
pub fn coordinate(value: f64) -> String {
    if !value.is_finite() {
        return "0".into();
    }
    let text = format!("{value:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".into() } else { text.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn xml_markup_is_escaped() {
        let tag = Tag::new("text").set("class", "a\"b'<c>&").text("1 < 2 & \"3\"\u{1}");
        let text = tag.to_string();
        assert_eq!(text, "<text class=\"a&quot;b&#39;&lt;c&gt;&amp;\">1 &lt; 2 &amp; &quot;3&quot;</text>");
        let read = roxmltree::Document::parse(&text).unwrap();
        assert_eq!(read.root_element().text(), Some("1 < 2 & \"3\""));
        assert_eq!(read.root_element().attribute("class"), Some("a\"b'<c>&"));
    }

    #[test]
    fn coordinates_are_short_and_finite() {
        for (value, text) in
            [(1.0, "1"), (1.005_01, "1.01"), (-0.001, "0"), (100.0, "100"), (f64::NAN, "0"), (f64::INFINITY, "0")]
        {
            assert_eq!(coordinate(value), text);
        }
    }
}
