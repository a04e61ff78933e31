//! `--congestion` with several controllers to compare.

use longhaul::{Congestion, ParseCongestionError};

/// Value of `--congestion`.
#[derive(Clone, Debug)]
pub enum Choices {
    /// Print the registry.
    List,
    /// Use these controllers.
    Use(Vec<Congestion>),
}

/// Parses one controller, or several separated by commas. A composition by slots contains commas itself, so it needs a
/// `--congestion` option of its own.
///
/// # Errors
/// Returns the error in the first invalid controller, and the available names.
pub fn parse(text: &str) -> Result<Choices, ParseCongestionError> {
    if matches!(text, "list" | "help") {
        return Ok(Choices::List);
    }
    let whole = text.parse();
    let parts = split(text);
    match whole {
        Err(_) if parts.len() > 1 => parts.into_iter().map(str::parse).collect::<Result<_, _>>().map(Choices::Use),
        whole => whole.map(|one| Choices::Use(vec![one])),
    }
}

/// Splits the text at the commas outside parentheses.
fn split(text: &str) -> Vec<&str> {
    let mut depth = 0_usize;
    let at_comma = |letter| {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        letter == ',' && depth == 0
    };
    text.split(at_comma).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        match parse(text).unwrap() {
            Choices::List => Vec::new(),
            Choices::Use(all) => all.iter().map(ToString::to_string).collect(),
        }
    }

    #[test]
    fn commas_part_controllers_and_not_slots_or_options() {
        assert_eq!(names("cubic"), ["cubic"]);
        assert_eq!(names("cubic,new-reno").len(), 2);
        assert_eq!(names("cubic(beta=0.8,c=0.5),slow-start(iw=4,l=1)+new-reno").len(), 2);
        assert_eq!(names("slow-start=slow-start,avoidance=new-reno,recovery=prr").len(), 1);
        assert!(matches!(parse("list"), Ok(Choices::List)));
        let wrong = parse("cubic,warp").unwrap_err().to_string();
        assert!(wrong.contains("`warp`"), "{wrong}");
        assert!(parse("cubic,").is_err() && parse("").is_err() && parse("cubic(beta=0.8").is_err());
    }
}
