//! Approximate width of text, because the font is unknown.

/// Returns the width in a common sans-serif font of this size, overestimated rather than underestimated.
pub fn width(text: &str, size: f64) -> f64 {
    let of = |c: char| match c {
        'i' | 'j' | 'l' | '\'' | '|' | '.' | ',' | ':' | ';' | '!' => 0.28,
        ' ' | 'f' | 't' | 'r' | 'I' | '(' | ')' | '[' | ']' | '/' | '-' | '"' | '\u{2009}' => 0.36,
        'm' | 'w' | 'M' | 'W' | '%' | '@' => 0.88,
        'A'..='Z' | '&' | '\u{d7}' | '\u{2212}' | '=' | '+' | '<' | '>' => 0.68,
        '0'..='9' => 0.64,
        c if u32::from(c) >= 0x2e80 => 1.05,
        _ => 0.56,
    };
    text.chars().map(of).sum::<f64>() * size * 1.02
}

/// Wraps a text into lines of at most this width. A word that is wider has its own line.
pub fn wrap(text: &str, size: f64, most: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if width(line, size) + width(" ", size) + width(word, size) <= most => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.into()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_hold_their_words() {
        assert_eq!(wrap("20 Mb/s, 500 ms", 11.0, 60.0), ["20 Mb/s,", "500 ms"]);
        assert_eq!(wrap("incompressible", 11.0, 10.0), ["incompressible"]);
        assert!(wrap(" ", 11.0, 10.0).is_empty());
    }
}
