//! The two shapes of a solution (kernel or host function), their detection in a source, and their starter code.

use crate::dtype::Dtype;
use crate::parameter::Direction;
use crate::problem::Problem;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Shape of a solution: what the judge calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Shape {
    /// `extern "C" __global__ void solution(...)`: launched by the judge.
    Kernel,
    /// `extern "C" void solution(...)`: a host function that launches its own kernels.
    Host,
}

impl Shape {
    /// Detects the shape of `solution` in a source; `None` if it is not declared.
    pub fn of(source: &str) -> Option<Self> {
        let code = without_comments_and_strings(source);
        let mut found = None;
        for (at, _) in code.match_indices("solution") {
            let before = code[..at].chars().next_back();
            let after = code[at + "solution".len()..].trim_start();
            if before.is_some_and(|c| c.is_alphanumeric() || c == '_') || !after.starts_with('(') {
                continue;
            }
            let start = code[..at].rfind([';', '{', '}']).map_or(0, |end| end + 1);
            let words: Vec<&str> =
                code[start..at].split(|c: char| !c.is_alphanumeric() && c != '_').collect();
            if words.contains(&"__global__") {
                return Some(Self::Kernel);
            }
            if words.contains(&"void") {
                found = Some(Self::Host);
            }
        }
        found
    }
}

impl Problem {
    /// Returns the declaration of `solution`, without its body.
    pub fn signature(&self, dtype: Dtype, shape: Shape) -> String {
        let global = match shape {
            Shape::Kernel => "__global__ ",
            Shape::Host => "",
        };
        let parameters: Vec<String> =
            self.parameters.iter().map(|parameter| parameter.declaration(dtype)).collect();
        format!("extern \"C\" {global}void solution({})", parameters.join(", "))
    }

    /// Returns the starter code for the editor.
    pub fn starter(&self, dtype: Dtype, shape: Shape) -> String {
        let mut text = String::from("#include <hip/hip_runtime.h>\n");
        for header in self.headers(dtype) {
            let _ = writeln!(text, "#include <{header}>");
        }
        let signature = self.signature(dtype, shape);
        match shape {
            Shape::Kernel => {
                let list = |parts: &[crate::expression::Expression]| {
                    parts
                        .iter()
                        .map(|part| part.text().replace(char::is_whitespace, ""))
                        .collect::<Vec<_>>()
                        .join(" ")
                };
                let _ = write!(
                    text,
                    "\n// Launch configuration as formulas over the sizes of the case. Change it if your kernel needs another.\n//!grid {}\n//!block {}\n\n{signature} {{\n    \n}}\n",
                    list(&self.launch.grid),
                    list(&self.launch.block),
                );
            }
            Shape::Host => {
                text.push_str("\n// Pointers are to device memory. Launch your own kernels; the judge waits for them after this function returns.\n");
                self.describe_devices(&mut text);
                let _ = write!(text, "{signature} {{\n    \n}}\n");
            }
        }
        text
    }

    /// Writes as comments which buffers are on which GPU, if there are several.
    fn describe_devices(&self, text: &mut String) {
        if self.devices == 1 {
            return;
        }
        for device in 0..self.devices {
            let buffers = self
                .parameters
                .iter()
                .filter(|parameter| parameter.direction != Direction::Scalar && parameter.device == device);
            let names: Vec<&str> = buffers.map(|parameter| parameter.name.as_str()).collect();
            let _ = writeln!(text, "// On GPU {device}: {}.", names.join(", "));
        }
        text.push_str("// Choose a GPU with hipSetDevice. Each can access the memory of the others.\n");
    }

    /// Returns the usual shape of a solution.
    pub fn shape(&self) -> Shape {
        if self.devices == 1 { Shape::Kernel } else { Shape::Host }
    }

    /// Returns whether a solution may have this shape. A kernel runs on one GPU only.
    pub fn permits(&self, shape: Shape) -> bool {
        self.devices == 1 || shape == Shape::Host
    }

    /// Returns the headers that the types of the signature need in addition to `hip/hip_runtime.h`.
    pub fn headers(&self, dtype: Dtype) -> BTreeSet<&'static str> {
        self.parameters.iter().filter_map(|parameter| parameter.element.dtype(dtype).header()).collect()
    }
}

/// Blanks out comments and the contents of string and character literals.
fn without_comments_and_strings(source: &str) -> String {
    let mut code = String::with_capacity(source.len());
    let mut rest = source.chars().peekable();
    while let Some(c) = rest.next() {
        match (c, rest.peek()) {
            ('/', Some('/')) => {
                while rest.peek().is_some_and(|next| *next != '\n') {
                    rest.next();
                }
            }
            ('/', Some('*')) => {
                rest.next();
                let mut last = ' ';
                for next in rest.by_ref() {
                    if last == '*' && next == '/' {
                        break;
                    }
                    last = next;
                }
                code.push(' ');
            }
            ('"' | '\'', _) => {
                code.push(c);
                while let Some(next) = rest.next() {
                    match next {
                        '\\' => drop(rest.next()),
                        // An unclosed quote ends with its line: 1'000 is not a character literal.
                        '\n' => break,
                        end if end == c => break,
                        _ => {}
                    }
                }
                code.push(c);
            }
            _ => code.push(c),
        }
    }
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shape_is_read_from_the_declaration_of_solution() {
        let kernel = "extern \"C\" __global__ void solution(const float* a) {}";
        assert_eq!(Shape::of(kernel), Some(Shape::Kernel));
        let bounds = "extern \"C\" __global__ __launch_bounds__(256)\nvoid\nsolution (int n) {}";
        assert_eq!(Shape::of(bounds), Some(Shape::Kernel));
        let host = "__global__ void k(int n) {}\nextern \"C\" void solution(int n) { k<<<1, 1>>>(n); }";
        assert_eq!(Shape::of(host), Some(Shape::Host));
        let block = "extern \"C\" {\n__global__ void solution(int n) {}\n}";
        assert_eq!(Shape::of(block), Some(Shape::Kernel));
    }

    #[test]
    fn comments_and_strings_declare_nothing() {
        let comment = "// extern __global__ void solution(int)\n/* __global__ void solution() */";
        assert_eq!(Shape::of(comment), None);
        let string = "const char* s = \"; __global__ void solution(\";\nextern \"C\" void solution() {}";
        assert_eq!(Shape::of(string), Some(Shape::Host));
        assert_eq!(Shape::of("void my_solution(int) {}"), None);
        assert_eq!(Shape::of("int x = solution;"), None);
        assert_eq!(Shape::of(""), None);
    }
}
