//! Launch configuration of a kernel: the problem's default, and overrides from comments in the source.

use crate::expression::{Expression, ExpressionError, Sizes};
use thiserror::Error;

/// Most work-items of a work-group on the supported GPUs.
const WORK_GROUP: u32 = 1024;
/// Most work-items along one dimension of a grid.
const GRID: u64 = u32::MAX as u64;
/// Most LDS of a work-group, in bytes.
const LDS: u32 = 64 << 10;
/// Longest line, in bytes, that is parsed as a directive.
const LINE: usize = 2048;

/// Grid, block and local memory of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    /// In work-groups.
    pub grid: [u32; 3],
    /// Work-items of a group, per dimension.
    pub block: [u32; 3],
    /// Dynamic local memory in bytes.
    pub dynamic_lds: u32,
}

/// Why a launch is not possible.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum LaunchError {
    /// A formula is wrong.
    #[error("`{line}`: {source}")]
    Expression {
        /// The directive or formula.
        line: String,
        /// The cause.
        source: ExpressionError,
    },
    /// There are too many values.
    #[error("`{line}`: from one to {most} numbers are expected")]
    Count {
        /// The directive or formula.
        line: String,
        /// Largest number of values.
        most: usize,
    },
    /// A value is out of range.
    #[error("`{line}` gives {value}; it must be from {least} to {most}")]
    Range {
        /// The directive or formula.
        line: String,
        /// The value.
        value: i64,
        /// Least allowed value.
        least: u64,
        /// Largest allowed value.
        most: u64,
    },
    /// A group has too many work-items.
    #[error("a block of {x} x {y} x {z} has more than {WORK_GROUP} work-items")]
    Block {
        /// Extent in the first dimension.
        x: u32,
        /// Extent in the second dimension.
        y: u32,
        /// Extent in the third dimension.
        z: u32,
    },
    /// A dimension has too many work-items.
    #[error("a grid of {groups} work-groups of {items} has more than 2^32-1 work-items in one dimension")]
    Grid {
        /// Groups in a dimension.
        groups: u32,
        /// Work-items of a group in that dimension.
        items: u32,
    },
}

/// A launch as formulas over the sizes of a case.
#[derive(Clone, Debug, PartialEq)]
pub struct Formula {
    /// Groups per dimension.
    pub grid: Vec<Expression>,
    /// Work-items of a group, per dimension.
    pub block: Vec<Expression>,
    /// Dynamic local memory in bytes.
    pub lds: Option<Expression>,
}

impl Formula {
    /// Applies the directives `//!grid x y z`, `//!block x y z` and `//!lds bytes` in a source's comments. Values are formulas
    /// without spaces: `//!grid (n+15)/16 (m+15)/16`.
    pub fn overridden(&self, source: &str) -> Result<Self, LaunchError> {
        let mut formula = self.clone();
        for line in source.lines().map(str::trim).filter(|line| line.len() <= LINE) {
            if let Some(rest) = directive(line, "//!grid") {
                formula.grid = expressions(line, rest, 3)?;
            } else if let Some(rest) = directive(line, "//!block") {
                formula.block = expressions(line, rest, 3)?;
            } else if let Some(rest) = directive(line, "//!lds") {
                formula.lds = expressions(line, rest, 1)?.pop();
            }
        }
        Ok(formula)
    }

    /// Evaluates the formulas for the sizes of a case.
    pub fn launch(&self, sizes: &Sizes) -> Result<Launch, LaunchError> {
        let grid = extents(&self.grid, sizes, GRID)?;
        let block = extents(&self.block, sizes, WORK_GROUP.into())?;
        let [x, y, z] = block;
        if u64::from(x) * u64::from(y) * u64::from(z) > WORK_GROUP.into() {
            return Err(LaunchError::Block { x, y, z });
        }
        for (groups, items) in grid.into_iter().zip(block) {
            if u64::from(groups) * u64::from(items) > GRID {
                return Err(LaunchError::Grid { groups, items });
            }
        }
        let dynamic_lds = match &self.lds {
            Some(lds) => extent(lds, sizes, 0, LDS.into())?,
            None => 0,
        };
        Ok(Launch { grid, block, dynamic_lds })
    }
}

fn directive<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    line.strip_prefix(name).filter(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace))
}

fn expressions(line: &str, text: &str, most: usize) -> Result<Vec<Expression>, LaunchError> {
    let words: Vec<&str> = text.split_whitespace().take(most + 1).collect();
    if words.is_empty() || words.len() > most {
        return Err(LaunchError::Count { line: line.to_owned(), most });
    }
    let parse = |word: &&str| {
        Expression::parse(word).map_err(|source| LaunchError::Expression { line: line.to_owned(), source })
    };
    words.iter().map(parse).collect()
}

fn extents(formulas: &[Expression], sizes: &Sizes, most: u64) -> Result<[u32; 3], LaunchError> {
    let mut extents = [1; 3];
    for (place, formula) in extents.iter_mut().zip(formulas) {
        *place = extent(formula, sizes, 1, most)?;
    }
    Ok(extents)
}

fn extent(formula: &Expression, sizes: &Sizes, least: u64, most: u64) -> Result<u32, LaunchError> {
    let line = || formula.text().to_owned();
    let value = formula.integer(sizes).map_err(|source| LaunchError::Expression { line: line(), source })?;
    u32::try_from(value)
        .ok()
        .filter(|value| (least..=most).contains(&u64::from(*value)))
        .ok_or_else(|| LaunchError::Range { line: line(), value, least, most })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn formula() -> Formula {
        Formula {
            grid: vec![Expression::parse("(n+255)/256").unwrap()],
            block: vec![Expression::parse("256").unwrap()],
            lds: None,
        }
    }

    fn sizes() -> Sizes {
        [("n".to_owned(), 1000)].into()
    }

    #[test]
    fn a_comment_overrides_the_default() {
        let source = "// a kernel\n  //!block 16 16\n//!lds 4*n\n//!grid (n+15)/16 2\nint x; //!grid 7\n";
        let launch = formula().overridden(source).unwrap().launch(&sizes()).unwrap();
        assert_eq!(launch, Launch { grid: [63, 2, 1], block: [16, 16, 1], dynamic_lds: 4000 });
        let launch = formula().overridden("//!gridded 1\n//! grid 2").unwrap().launch(&sizes()).unwrap();
        assert_eq!(launch, Launch { grid: [4, 1, 1], block: [256, 1, 1], dynamic_lds: 0 });
    }

    #[test]
    fn what_cannot_be_launched_is_an_error() {
        let fails = |source: &str| formula().overridden(source).and_then(|f| f.launch(&sizes())).unwrap_err();
        assert!(matches!(fails("//!block 64 64"), LaunchError::Block { .. }));
        assert!(matches!(fails("//!block 0"), LaunchError::Range { .. }));
        assert!(matches!(fails("//!grid n-2000"), LaunchError::Range { .. }));
        assert!(matches!(fails("//!grid 2147483648"), LaunchError::Grid { .. }));
        assert!(matches!(fails("//!grid"), LaunchError::Count { .. }));
        assert!(matches!(fails("//!grid 1 1 1 1"), LaunchError::Count { .. }));
        assert!(matches!(fails("//!lds 100000"), LaunchError::Range { .. }));
        assert!(matches!(fails("//!grid q"), LaunchError::Expression { .. }));
    }
}
