//! Formulas over the sizes of a case: `(n*m+255)/256`, `2*m*n*k`, `sqrt(k)`.
//!
//! One grammar with two evaluations: integers (shapes, grids; division rounds down) and real numbers (FLOPs, bytes, scales). Overflow and
//! division by zero are errors, and the nesting depth is limited.

use std::collections::BTreeMap;
use thiserror::Error;

/// Longest accepted formula, in bytes.
const LENGTH: usize = 512;
/// Deepest accepted nesting.
const DEPTH: usize = 32;

/// The named sizes of a case.
pub type Sizes = BTreeMap<String, i64>;

/// Why a formula cannot be parsed or evaluated.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ExpressionError {
    /// It is too long.
    #[error("`{text}` is longer than {LENGTH} bytes")]
    Long {
        /// The formula.
        text: String,
    },
    /// It is nested too deeply.
    #[error("`{text}` nests deeper than {DEPTH}")]
    Deep {
        /// The formula.
        text: String,
    },
    /// It is not a formula.
    #[error("`{text}` cannot be read at byte {at}: {expected} was expected")]
    Syntax {
        /// The formula.
        text: String,
        /// Position of the mistake.
        at: usize,
        /// What was expected there.
        expected: &'static str,
    },
    /// It uses a name that the case does not define.
    #[error("`{name}` is not a size of this case")]
    Unknown {
        /// The name.
        name: String,
    },
    /// It divides by zero.
    #[error("`{text}` divides by zero")]
    Division {
        /// The formula.
        text: String,
    },
    /// Its value does not fit into 64 bits.
    #[error("`{text}` overflows 64 bits or is undefined")]
    Overflow {
        /// The formula.
        text: String,
    },
}

/// A parsed formula.
#[derive(Clone, Debug, PartialEq)]
pub struct Expression {
    text: String,
    root: Node,
}

#[derive(Clone, Debug, PartialEq)]
enum Node {
    Number(i64),
    Size(String),
    Binary(Operator, Box<Node>, Box<Node>),
    Minimum(Box<Node>, Box<Node>),
    Maximum(Box<Node>, Box<Node>),
    /// Square root; rounded down for integers.
    Root(Box<Node>),
    /// Base-2 logarithm; rounded up for integers, which gives the number of halving steps.
    Logarithm(Box<Node>),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Power,
}

impl Expression {
    /// Parses a formula.
    pub fn parse(text: &str) -> Result<Self, ExpressionError> {
        let text = text.trim();
        if text.len() > LENGTH {
            return Err(ExpressionError::Long { text: text.chars().take(40).collect() });
        }
        let mut reader = Reader { text, at: 0, depth: 0 };
        let root = reader.sum()?;
        reader.space();
        if reader.at < text.len() {
            return Err(reader.syntax("the end"));
        }
        Ok(Self { text: text.to_owned(), root })
    }

    /// Returns the formula as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Evaluates the formula with integers.
    pub fn integer(&self, sizes: &Sizes) -> Result<i64, ExpressionError> {
        self.whole(&self.root, sizes)
    }

    /// Evaluates the formula with real numbers.
    pub fn real(&self, sizes: &Sizes) -> Result<f64, ExpressionError> {
        let value = self.fraction(&self.root, sizes)?;
        if value.is_finite() { Ok(value) } else { Err(self.overflow()) }
    }

    /// Returns the names of the sizes that the formula uses.
    pub fn names(&self) -> Vec<&str> {
        let mut names = Vec::new();
        let mut nodes = vec![&self.root];
        while let Some(node) = nodes.pop() {
            match node {
                Node::Number(_) => {}
                Node::Size(name) => names.push(name.as_str()),
                Node::Binary(_, left, right) | Node::Minimum(left, right) | Node::Maximum(left, right) => {
                    nodes.extend([right.as_ref(), left.as_ref()]);
                }
                Node::Root(inner) | Node::Logarithm(inner) => nodes.push(inner),
            }
        }
        names
    }

    /// Converts the formula to C++ over members of `s`. Integers are `long long`, real numbers `double`. The C++ code must define
    /// `divide`, `power`, `root`, `logarithm`, `least` and `most` for both.
    pub(crate) fn c(&self, real: bool) -> String {
        c(&self.root, real)
    }

    fn whole(&self, node: &Node, sizes: &Sizes) -> Result<i64, ExpressionError> {
        let value = match node {
            Node::Number(value) => Some(*value),
            Node::Size(name) => Some(size(name, sizes)?),
            Node::Minimum(left, right) => Some(self.whole(left, sizes)?.min(self.whole(right, sizes)?)),
            Node::Maximum(left, right) => Some(self.whole(left, sizes)?.max(self.whole(right, sizes)?)),
            Node::Root(inner) => self.whole(inner, sizes)?.checked_isqrt(),
            Node::Logarithm(inner) => match self.whole(inner, sizes)? {
                ..=0 => None,
                value => Some(i64::from(64 - (value - 1).leading_zeros())),
            },
            Node::Binary(operator, left, right) => {
                let (left, right) = (self.whole(left, sizes)?, self.whole(right, sizes)?);
                match operator {
                    Operator::Add => left.checked_add(right),
                    Operator::Subtract => left.checked_sub(right),
                    Operator::Multiply => left.checked_mul(right),
                    Operator::Divide if right == 0 => {
                        return Err(ExpressionError::Division { text: self.text.clone() });
                    }
                    Operator::Divide => left.checked_div_euclid(right),
                    Operator::Power => u32::try_from(right).ok().and_then(|power| left.checked_pow(power)),
                }
            }
        };
        value.ok_or_else(|| self.overflow())
    }

    fn fraction(&self, node: &Node, sizes: &Sizes) -> Result<f64, ExpressionError> {
        Ok(match node {
            Node::Number(value) => *value as f64,
            Node::Size(name) => size(name, sizes)? as f64,
            Node::Minimum(left, right) => self.fraction(left, sizes)?.min(self.fraction(right, sizes)?),
            Node::Maximum(left, right) => self.fraction(left, sizes)?.max(self.fraction(right, sizes)?),
            Node::Root(inner) => self.fraction(inner, sizes)?.sqrt(),
            Node::Logarithm(inner) => self.fraction(inner, sizes)?.log2(),
            Node::Binary(operator, left, right) => {
                let (left, right) = (self.fraction(left, sizes)?, self.fraction(right, sizes)?);
                match operator {
                    Operator::Add => left + right,
                    Operator::Subtract => left - right,
                    Operator::Multiply => left * right,
                    Operator::Divide if right == 0.0 => {
                        return Err(ExpressionError::Division { text: self.text.clone() });
                    }
                    Operator::Divide => left / right,
                    Operator::Power => left.powf(right),
                }
            }
        })
    }

    fn overflow(&self) -> ExpressionError {
        ExpressionError::Overflow { text: self.text.clone() }
    }
}

fn c(node: &Node, real: bool) -> String {
    let two =
        |name: &str, left: &Node, right: &Node| format!("{name}({}, {})", c(left, real), c(right, real));
    match node {
        Node::Number(value) if real => format!("{value}.0"),
        Node::Number(value) => format!("{value}ll"),
        Node::Size(name) if real => format!("(double)s.{name}"),
        Node::Size(name) => format!("s.{name}"),
        Node::Minimum(left, right) => two("least", left, right),
        Node::Maximum(left, right) => two("most", left, right),
        Node::Root(inner) => format!("root({})", c(inner, real)),
        Node::Logarithm(inner) => format!("logarithm({})", c(inner, real)),
        Node::Binary(Operator::Add, left, right) => format!("({} + {})", c(left, real), c(right, real)),
        Node::Binary(Operator::Subtract, left, right) => format!("({} - {})", c(left, real), c(right, real)),
        Node::Binary(Operator::Multiply, left, right) => format!("{} * {}", c(left, real), c(right, real)),
        Node::Binary(Operator::Divide, left, right) => two("divide", left, right),
        Node::Binary(Operator::Power, left, right) => two("power", left, right),
    }
}

fn size(name: &str, sizes: &Sizes) -> Result<i64, ExpressionError> {
    sizes.get(name).copied().ok_or_else(|| ExpressionError::Unknown { name: name.to_owned() })
}

/// Recursive descent parser: a sum of products of powers of atoms.
struct Reader<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl Reader<'_> {
    fn sum(&mut self) -> Result<Node, ExpressionError> {
        self.depth += 1;
        if self.depth > DEPTH {
            return Err(ExpressionError::Deep { text: self.text.to_owned() });
        }
        let mut left = self.product()?;
        loop {
            let operator = match self.peek() {
                Some(b'+') => Operator::Add,
                Some(b'-') => Operator::Subtract,
                _ => break,
            };
            self.at += 1;
            left = Node::Binary(operator, Box::new(left), Box::new(self.product()?));
        }
        self.depth -= 1;
        Ok(left)
    }

    fn product(&mut self) -> Result<Node, ExpressionError> {
        let mut left = self.power()?;
        loop {
            let operator = match self.peek() {
                Some(b'*') => Operator::Multiply,
                Some(b'/') => Operator::Divide,
                _ => return Ok(left),
            };
            self.at += 1;
            left = Node::Binary(operator, Box::new(left), Box::new(self.power()?));
        }
    }

    fn power(&mut self) -> Result<Node, ExpressionError> {
        let base = self.atom()?;
        if self.peek() != Some(b'^') {
            return Ok(base);
        }
        self.at += 1;
        let exponent = self.atom()?;
        Ok(Node::Binary(Operator::Power, Box::new(base), Box::new(exponent)))
    }

    fn atom(&mut self) -> Result<Node, ExpressionError> {
        match self.peek() {
            Some(b'(') => {
                self.at += 1;
                let inner = self.sum()?;
                self.expect(b')', "`)`")?;
                Ok(inner)
            }
            Some(b'-') => {
                self.at += 1;
                self.depth += 1;
                if self.depth > DEPTH {
                    return Err(ExpressionError::Deep { text: self.text.to_owned() });
                }
                let inner = self.atom()?;
                self.depth -= 1;
                Ok(Node::Binary(Operator::Subtract, Box::new(Node::Number(0)), Box::new(inner)))
            }
            Some(b'0'..=b'9') => {
                let digits = self.take(|byte| byte.is_ascii_digit());
                digits.parse().map(Node::Number).map_err(|_| self.syntax("a smaller number"))
            }
            Some(byte) if byte.is_ascii_alphabetic() => {
                let name = self.take(|byte| byte.is_ascii_alphanumeric() || byte == b'_').to_owned();
                if self.peek() == Some(b'(') { self.function(&name) } else { Ok(Node::Size(name)) }
            }
            _ => Err(self.syntax("a number, a size or `(`")),
        }
    }

    fn function(&mut self, name: &str) -> Result<Node, ExpressionError> {
        self.at += 1;
        let first = Box::new(self.sum()?);
        let node = match name {
            "sqrt" => Node::Root(first),
            "log2" => Node::Logarithm(first),
            "min" | "max" => {
                self.expect(b',', "`,`")?;
                let second = Box::new(self.sum()?);
                if name == "min" { Node::Minimum(first, second) } else { Node::Maximum(first, second) }
            }
            _ => return Err(self.syntax("sqrt, log2, min or max")),
        };
        self.expect(b')', "`)`")?;
        Ok(node)
    }

    fn peek(&mut self) -> Option<u8> {
        self.space();
        self.text.as_bytes().get(self.at).copied()
    }

    fn space(&mut self) {
        while self.text.as_bytes().get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
    }

    fn take(&mut self, part: impl Fn(u8) -> bool) -> &str {
        let start = self.at;
        while self.text.as_bytes().get(self.at).copied().is_some_and(&part) {
            self.at += 1;
        }
        &self.text[start..self.at]
    }

    fn expect(&mut self, byte: u8, expected: &'static str) -> Result<(), ExpressionError> {
        if self.peek() != Some(byte) {
            return Err(self.syntax(expected));
        }
        self.at += 1;
        Ok(())
    }

    fn syntax(&self, expected: &'static str) -> ExpressionError {
        ExpressionError::Syntax { text: self.text.to_owned(), at: self.at, expected }
    }
}

/// Unwraps the value of a formula. It cannot fail, because all formulas were evaluated with every case when the set was parsed.
pub(crate) fn known<T, E: std::fmt::Display>(value: Result<T, E>) -> T {
    value.unwrap_or_else(|error| panic!("a formula of the set fails: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes() -> Sizes {
        [("n", 1000), ("m", 3), ("big", i64::MAX)].map(|(name, size)| (name.to_owned(), size)).into()
    }

    fn integer(text: &str) -> Result<i64, ExpressionError> {
        Expression::parse(text)?.integer(&sizes())
    }

    #[test]
    fn whole_numbers_divide_down_and_bind_as_in_c() {
        assert_eq!(integer("(n*m+255)/256"), Ok(12));
        assert_eq!(integer("2*n^2 - m*(1+m)"), Ok(2_000_000 - 12));
        assert_eq!(integer("max(min(n, 7), m) + log2(n) + sqrt(17)"), Ok(7 + 10 + 4));
        assert_eq!(integer("10 - 4 - 3"), Ok(3));
        assert_eq!(integer("-n + 2*-m"), Ok(-1006));
    }

    #[test]
    fn real_numbers_keep_their_fractions() {
        let value = Expression::parse("m / 2 + sqrt(n)").unwrap().real(&sizes()).unwrap();
        assert!((value - (1.5 + 1000f64.sqrt())).abs() < 1e-12);
    }

    #[test]
    fn mistakes_are_errors_and_never_panics() {
        assert!(matches!(integer("n +"), Err(ExpressionError::Syntax { at: 3, .. })));
        assert!(matches!(integer("n m"), Err(ExpressionError::Syntax { expected: "the end", .. })));
        assert!(matches!(integer("f(n)"), Err(ExpressionError::Syntax { .. })));
        assert!(matches!(integer("é"), Err(ExpressionError::Syntax { .. })));
        assert!(matches!(integer("q"), Err(ExpressionError::Unknown { .. })));
        assert!(matches!(integer("n/(m-3)"), Err(ExpressionError::Division { .. })));
        assert!(matches!(integer("big*n"), Err(ExpressionError::Overflow { .. })));
        assert!(matches!(integer("big^big"), Err(ExpressionError::Overflow { .. })));
        assert!(matches!(integer("sqrt(0-n)"), Err(ExpressionError::Overflow { .. })));
        assert!(matches!(integer("log2(0)"), Err(ExpressionError::Overflow { .. })));
        assert!(matches!(integer("99999999999999999999"), Err(ExpressionError::Syntax { .. })));
        assert!(matches!(integer(&"(".repeat(100)), Err(ExpressionError::Deep { .. })));
        assert!(matches!(integer(&"-".repeat(100)), Err(ExpressionError::Deep { .. })));
        assert!(matches!(integer(&"1+".repeat(1000)), Err(ExpressionError::Long { .. })));
    }

    #[test]
    fn names_are_listed() {
        assert_eq!(Expression::parse("n*min(m, n)").unwrap().names(), ["n", "m", "n"]);
    }
}
