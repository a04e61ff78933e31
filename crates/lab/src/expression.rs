//! Expressions over measures: `goodput(far) / goodput(near)`, `sent(x, 2s)`.

use longhaul_link::spec::value;
use longhaul_units::{Span, math};

/// Maximum nesting depth of parentheses.
const DEEPEST: usize = 32;
/// Maximum number of operators. Each adds one level to the expression tree.
const MOST_OPERATORS: usize = 1000;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Expression {
    Number(f64),
    /// A measure of flows, the bottleneck, a workload or a probe.
    Measure(Call),
    Both(Box<(Self, Operator, Self)>),
    /// 1 if the expression has a value, 0 if not. Its mean over the runs is the share of runs with a value.
    Known(Box<Self>),
    /// The natural logarithm. It is undefined for values of 0 and below.
    Ln(Box<Self>),
    Larger(Box<(Self, Self)>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operator {
    Plus,
    Minus,
    Times,
    Over,
    /// `<`: 1 if the left side is less, 0 if not.
    Less,
    /// `>`: 1 if the left side is greater, 0 if not.
    More,
}

impl Operator {
    fn apply(self, left: f64, right: f64) -> f64 {
        match self {
            Self::Plus => left + right,
            Self::Minus => left - right,
            Self::Times => left * right,
            Self::Over => left / right,
            Self::Less => f64::from(u8::from(left < right)),
            Self::More => f64::from(u8::from(left > right)),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Call {
    pub(crate) name: String,
    pub(crate) arguments: Vec<Argument>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Argument {
    /// A name of flows, an estimate, a drop cause or a quantile.
    Name(String),
    Time(Span),
    Size(u64),
}

impl Expression {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut reader = Reader { rest: text, depth: 0, operators: 0 };
        let expression = reader.comparison()?;
        reader.skip();
        if reader.rest.is_empty() { Ok(expression) } else { Err(reader.unexpected("an operator or the end")) }
    }

    pub(crate) fn calls(&self) -> Vec<&Call> {
        match self {
            Self::Number(_) => Vec::new(),
            Self::Measure(call) => vec![call],
            Self::Both(both) => both.0.calls().into_iter().chain(both.2.calls()).collect(),
            Self::Known(inner) | Self::Ln(inner) => inner.calls(),
            Self::Larger(both) => both.0.calls().into_iter().chain(both.1.calls()).collect(),
        }
    }

    pub(crate) fn value(&self, measure: &impl Fn(&Call) -> Option<f64>) -> Option<f64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Measure(call) => measure(call).filter(|value| !value.is_nan()),
            Self::Both(both) => {
                let (left, right) = (both.0.value(measure)?, both.2.value(measure)?);
                let value = both.1.apply(left, right);
                value.is_finite().then_some(value)
            }
            Self::Known(inner) => Some(f64::from(u8::from(inner.value(measure).is_some()))),
            Self::Ln(inner) => Some(math::ln(inner.value(measure).filter(|value| *value > 0.0 && value.is_finite())?)),
            Self::Larger(both) => Some(both.0.value(measure)?.max(both.1.value(measure)?)),
        }
    }
}

struct Reader<'a> {
    rest: &'a str,
    depth: usize,
    operators: usize,
}

impl<'a> Reader<'a> {
    fn skip(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn takes(&mut self, what: char) -> bool {
        self.skip();
        let stripped = self.rest.strip_prefix(what);
        self.rest = stripped.unwrap_or(self.rest);
        stripped.is_some()
    }

    fn unexpected(&self, wanted: &str) -> String {
        let found = if self.rest.is_empty() { "the end".into() } else { format!("{:?}", self.rest) };
        format!("expected {wanted}, found {found}")
    }

    /// Takes the longest prefix of characters that match.
    fn piece(&mut self, belongs: impl Fn(char) -> bool) -> &'a str {
        self.skip();
        let end = self.rest.find(|c| !belongs(c)).unwrap_or(self.rest.len());
        let (piece, rest) = self.rest.split_at(end);
        self.rest = rest;
        piece
    }

    /// Joins two expressions, unless there are too many operators.
    fn both(&mut self, left: Expression, operator: Operator, right: Expression) -> Result<Expression, String> {
        self.operators += 1;
        if self.operators > MOST_OPERATORS {
            return Err(format!("more than {MOST_OPERATORS} operators"));
        }
        Ok(Expression::Both(Box::new((left, operator, right))))
    }

    /// Parses at most one comparison, because `a < b < c` has no useful meaning.
    fn comparison(&mut self) -> Result<Expression, String> {
        let left = self.sum()?;
        let operators = [('<', Operator::Less), ('>', Operator::More)];
        let found = operators.into_iter().find(|(sign, _)| self.takes(*sign));
        let Some((_, operator)) = found else { return Ok(left) };
        let right = self.sum()?;
        self.both(left, operator, right)
    }

    /// Parses the rest of a parenthesised expression, after the opening parenthesis.
    fn inner(&mut self) -> Result<Expression, String> {
        let inner = self.nested()?;
        if self.takes(')') { Ok(inner) } else { Err(self.unexpected("\")\"")) }
    }

    /// Parses the two arguments of `max`, after the opening parenthesis.
    fn larger(&mut self) -> Result<Expression, String> {
        let first = self.nested()?;
        if !self.takes(',') {
            return Err(self.unexpected("\",\""));
        }
        Ok(Expression::Larger(Box::new((first, self.inner()?))))
    }

    fn nested(&mut self) -> Result<Expression, String> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(format!("more than {DEEPEST} nested parentheses"));
        }
        let inner = self.comparison()?;
        self.depth -= 1;
        Ok(inner)
    }

    fn sum(&mut self) -> Result<Expression, String> {
        self.chain(Self::product, [('+', Operator::Plus), ('-', Operator::Minus)])
    }

    fn product(&mut self) -> Result<Expression, String> {
        self.chain(Self::factor, [('*', Operator::Times), ('/', Operator::Over)])
    }

    /// Parses operands that are joined by these operators, from left to right.
    fn chain(
        &mut self,
        operand: fn(&mut Self) -> Result<Expression, String>,
        operators: [(char, Operator); 2],
    ) -> Result<Expression, String> {
        let mut left = operand(self)?;
        while let Some((_, operator)) = operators.into_iter().find(|(sign, _)| self.takes(*sign)) {
            let right = operand(self)?;
            left = self.both(left, operator, right)?;
        }
        Ok(left)
    }

    fn factor(&mut self) -> Result<Expression, String> {
        self.skip();
        if self.takes('(') {
            return self.inner();
        }
        if self.rest.starts_with(|c: char| c.is_ascii_digit()) {
            let number = self.piece(|c| c.is_ascii_digit() || c == '.');
            return number.parse().map(Expression::Number).map_err(|_| format!("{number:?} is not a number"));
        }
        let name = self.piece(is_of_name);
        if name.is_empty() {
            return Err(self.unexpected("a number or a measure"));
        }
        if !self.takes('(') {
            return Err(self.unexpected("\"(\""));
        }
        match name {
            "known" => return Ok(Expression::Known(Box::new(self.inner()?))),
            "ln" => return Ok(Expression::Ln(Box::new(self.inner()?))),
            "max" => return self.larger(),
            _ => {}
        }
        Ok(Expression::Measure(Call { name: name.into(), arguments: self.arguments()? }))
    }

    fn arguments(&mut self) -> Result<Vec<Argument>, String> {
        let mut arguments = Vec::new();
        if self.takes(')') {
            return Ok(arguments);
        }
        loop {
            let piece = self.piece(|c| is_of_name(c) || c == '.');
            arguments.push(if piece.starts_with(|c: char| c.is_ascii_digit()) {
                let time = value::span(piece).map(Argument::Time);
                time.or_else(|error| value::size(piece).map(Argument::Size).map_err(|_| error.to_string()))?
            } else if piece.is_empty() {
                return Err(self.unexpected("a name or a time"));
            } else {
                Argument::Name(piece.into())
            });
            if self.takes(')') {
                return Ok(arguments);
            }
            if !self.takes(',') {
                return Err(self.unexpected("\",\" or \")\""));
            }
        }
    }
}

fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '-' || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Option<f64> {
        Expression::parse(text).unwrap().value(&|call| call.name.strip_prefix('n').and_then(|n| n.parse().ok()))
    }

    #[test]
    fn arithmetic_is_the_usual() {
        for (text, expected) in [
            ("1 + 2 * 3", 7.0),
            ("(1 + 2) * 3", 9.0),
            ("8 - 3 - 2", 3.0),
            ("8/4/2", 1.0),
            ("n6() / n4()", 1.5),
            ("0.5 * n10(x, 2s)", 5.0),
            ("1 + 1 < 3", 1.0),
            ("(n3() > 3) * 7", 0.0),
            ("known(n3() / 2) + 1", 2.0),
            ("known(1 / 0)", 0.0),
            ("ln(1) + 2", 2.0),
            ("max(1, 2 * 3)", 6.0),
            ("max(ln(1), 0 - 1) * 4", 0.0),
        ] {
            assert_eq!(value(text), Some(expected), "{text}");
        }
        assert_eq!(value("1 / 0"), None);
        assert_eq!(value("1 + unknown()"), None);
        // A logarithm that does not exist has no value, and neither has a maximum with it.
        assert_eq!((value("ln(0)"), value("ln(0 - 1)"), value("max(ln(0), 1)")), (None, None, None));
    }

    #[test]
    fn arguments_are_names_times_and_sizes() {
        let call = Expression::parse("goodput(far-away, 20s, 1.5min, 15kB, p99.9)").unwrap().calls()[0].clone();
        let (from, to) = (Argument::Time(Span::from_secs(20)), Argument::Time(Span::from_secs(90)));
        let (size, quantile) = (Argument::Size(15_000), Argument::Name("p99.9".into()));
        assert_eq!(call.arguments, [Argument::Name("far-away".into()), from, to, size, quantile]);
    }

    #[test]
    fn invalid_expressions_are_reported() {
        for (text, told) in [
            ("", "expected a number or a measure, found the end"),
            ("1 +", "expected a number or a measure, found the end"),
            ("goodput", "expected \"(\", found the end"),
            ("goodput(x", "expected \",\" or \")\", found the end"),
            ("goodput(x, 2)", "\"2\" has no unit; write it as 250us, 65ms, 1.5s or 2min"),
            ("1 2", "expected an operator or the end, found \"2\""),
            ("1 < 2 < 3", "expected an operator or the end, found \"< 3\""),
            ("known(1", "expected \")\", found the end"),
            ("max(1)", "expected \",\", found \")\""),
            ("max(1, 2", "expected \")\", found the end"),
            ("(1", "expected \")\", found the end"),
        ] {
            assert_eq!(Expression::parse(text).unwrap_err().to_string(), told, "{text}");
        }
        assert!(Expression::parse(&"(".repeat(100_000)).is_err());
        assert!(
            Expression::parse(&"max(".repeat(100_000)).is_err() && Expression::parse(&"ln(".repeat(100_000)).is_err()
        );
        for operator in ["+", "/"] {
            let long = |operators: usize| Expression::parse(&format!("1{}", format!("{operator}1").repeat(operators)));
            assert_eq!(long(100_000).unwrap_err().to_string(), "more than 1000 operators");
            assert!(long(1000).is_ok_and(|long| long.calls().is_empty()));
        }
    }

    #[test]
    fn nan_is_not_a_value() {
        for (text, expected) in [("n() < 3", None), ("n() > 3", None), ("n()", None), ("known(n())", Some(0.0))] {
            assert_eq!(Expression::parse(text).unwrap().value(&|_| Some(f64::NAN)), expected, "{text}");
        }
    }
}
