//! Several pictures in one file.

use crate::canvas::{Canvas, style_element, titled};
use crate::tag::Tag;

/// Lets the plot areas of pictures begin at the same x. Existing elements do not move.
pub fn align(pictures: &mut [Canvas]) {
    let left = pictures.iter().map(|picture| picture.left).fold(0.0, f64::max);
    pictures.iter_mut().for_each(|picture| picture.left = left);
}

/// Returns a file with pictures one below the other. `id` is the prefix of ids in the page, and `title` and `about`
/// describe the whole file.
#[must_use]
pub fn stack(id: &str, title: &str, about: &str, pictures: &[Canvas]) -> String {
    let (mut below, mut height, mut width) = (Vec::new(), 0.0, 0.0_f64);
    for picture in pictures {
        let (element, high) = picture.element(Some(height));
        below.push(element);
        height += high;
        width = width.max(picture.width());
    }
    let svg = Tag::new("svg").set("xmlns", "http://www.w3.org/2000/svg");
    let mut svg = titled(svg, id, (width, height), (title, about)).raw(&style_element());
    below.iter().for_each(|picture| svg.push(picture));
    format!("{svg}\n")
}

#[cfg(test)]
mod tests {
    use roxmltree::Document;

    use super::*;
    use crate::canvas::{Around, Axis};

    #[test]
    fn pictures_do_not_overlap_and_have_the_same_left_edge() {
        let canvas = |nth: usize, most: f64| {
            let around = Around { id: format!("part-{nth}"), title: format!("<{nth}>"), ..Around::default() };
            let x = Axis::between((0.0, 10.0), "time", "s", 0.0);
            Canvas::new(around, x, Axis::between((0.0, most), "value", "", 0.0))
        };
        let mut pictures = [canvas(0, 1.0), canvas(1, 5e7)];
        assert!(pictures[0].left < pictures[1].left);
        align(&mut pictures);
        let file = stack("all", "A & B", "Two pictures.", &pictures);
        let document = Document::parse(&file).unwrap();
        let root = document.root_element();
        let number = |node: roxmltree::Node<'_, '_>, name: &str| node.attribute(name).unwrap().parse::<f64>().unwrap();
        let parts: Vec<_> =
            root.children().filter(|node| node.has_tag_name(("http://www.w3.org/2000/svg", "svg"))).collect();
        assert_eq!(parts.len(), 2);
        assert_eq!(number(parts[0], "y"), 0.0);
        assert_eq!(number(parts[1], "y"), number(parts[0], "height"));
        assert_eq!(number(root, "height"), number(parts[1], "y") + number(parts[1], "height"));
        let axis = |part: roxmltree::Node<'_, '_>| {
            let axis = part.descendants().find(|node| node.attribute("class") == Some("axis")).unwrap();
            axis.attribute("d").unwrap()[1..].split(' ').next().unwrap().to_owned()
        };
        assert_eq!(axis(parts[0]), axis(parts[1]));
        let ids: Vec<_> = document.descendants().filter_map(|node| node.attribute("id")).collect();
        let mut unique = ids.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(ids.len(), unique.len(), "an id is used twice");
        assert_eq!(
            document.descendants().filter(|node| node.has_tag_name(("http://www.w3.org/2000/svg", "style"))).count(),
            1
        );
    }
}
