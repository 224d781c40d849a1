//! Source rules: headers, assembler directives and libraries that a solution must not use. They protect the compiler's machine and give
//! clear messages; `object_rules` judges what host code may do.
//!
//! Words are searched after comments and strings have been removed, so that a comment cannot break a rule. Assembler directives are
//! searched inside strings.

/// Libraries that solve problems. Their headers are not available, so this only gives a better message than the compiler.
const LIBRARIES: &[&str] = &[
    "thrust",
    "rocprim",
    "hipcub",
    "rocblas",
    "hipblas",
    "hipblaslt",
    "miopen",
    "rocsparse",
    "rocfft",
    "rocsolver",
    "ck_tile",
];

/// Prefixes of headers that a source may include: HIP's, and those of C and C++.
const HEADERS: &[&str] = &[
    "hip/hip_runtime",
    "hip/hip_fp16",
    "hip/hip_bf16",
    "hip/hip_bfloat16",
    "hip/hip_fp8",
    "hip/hip_vector_types",
    "hip/hip_complex",
    "hip/hip_cooperative_groups",
    "hip/hip_math_constants",
    "hip/amd_detail/",
    "hip/hip_ext_ocp",
];

const STANDARD_HEADERS: &[&str] = &[
    "algorithm",
    "array",
    "assert.h",
    "bit",
    "bitset",
    "cassert",
    "cfloat",
    "cinttypes",
    "climits",
    "cmath",
    "complex",
    "concepts",
    "cstddef",
    "cstdint",
    "cstdio",
    "cstdlib",
    "cstring",
    "float.h",
    "functional",
    "initializer_list",
    "iostream",
    "iomanip",
    "iterator",
    "limits",
    "limits.h",
    "map",
    "math.h",
    "memory",
    "new",
    "numbers",
    "numeric",
    "optional",
    "random",
    "ratio",
    "set",
    "span",
    "sstream",
    "stddef.h",
    "stdexcept",
    "stdint.h",
    "stdio.h",
    "stdlib.h",
    "string",
    "string.h",
    "string_view",
    "tuple",
    "type_traits",
    "unordered_map",
    "unordered_set",
    "utility",
    "vector",
    "version",
    "chrono",
    "queue",
    "deque",
    "list",
    "stack",
];

/// A rule violation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Breach {
    pub rule: &'static str,
    about: &'static str,
    what: String,
    line: usize,
}

impl Breach {
    pub fn message(&self) -> String {
        format!("`{}` is not allowed: {}", self.what, self.about)
    }

    pub fn details(&self) -> String {
        format!("line {}", self.line)
    }
}

/// Returns the first rule violation of a source.
pub(crate) fn breach(source: &str) -> Option<Breach> {
    let plain = Plain::of(source);
    includes(&plain).or_else(|| assembler(&plain)).or_else(|| libraries(&plain))
}

fn libraries(plain: &Plain) -> Option<Breach> {
    for (index, line) in plain.code.lines().enumerate() {
        let mut words = line.split(|character: char| !character.is_alphanumeric() && character != '_');
        if let Some(what) = words.find(|word| LIBRARIES.contains(word)) {
            let about = "a solution must not call libraries that solve the problem";
            return Some(Breach { rule: "library", about, what: what.to_owned(), line: index + 1 });
        }
    }
    None
}

fn includes(plain: &Plain) -> Option<Breach> {
    for (index, line) in plain.with_strings.lines().enumerate() {
        let Some(rest) = line.trim_start().strip_prefix('#') else { continue };
        let rest = rest.trim_start();
        let Some(target) =
            ["include_next", "include", "import", "embed"].iter().find_map(|name| rest.strip_prefix(name))
        else {
            continue;
        };
        let target = target.trim();
        let header = target.strip_prefix('<').and_then(|header| header.split('>').next());
        let quoted = target.strip_prefix('"').and_then(|header| header.split('"').next());
        let named = header.or(quoted).unwrap_or(target).trim();
        let allowed = STANDARD_HEADERS.contains(&named)
            || (HEADERS.iter().any(|beginning| named.starts_with(beginning)) && !named.contains(".."));
        if !allowed {
            let what = format!("#include {target}");
            return Some(Breach {
                rule: "include",
                about: "only headers of HIP, C and C++ are allowed",
                what,
                line: index + 1,
            });
        }
    }
    None
}

/// Finds assembler directives that affect the compiler's machine rather than the device.
fn assembler(plain: &Plain) -> Option<Breach> {
    for (index, line) in plain.with_strings.lines().enumerate() {
        let small = line.to_ascii_lowercase();
        if let Some(what) =
            [".incbin", ".include", ".section", "#embed"].iter().find(|word| small.contains(**word))
        {
            let about = "inline assembler may only contain instructions";
            return Some(Breach { rule: "assembler", about, what: (*what).to_owned(), line: index + 1 });
        }
    }
    None
}

/// A source without comments, with and without the contents of its strings. Line numbers are preserved.
struct Plain {
    code: String,
    with_strings: String,
}

impl Plain {
    fn of(source: &str) -> Plain {
        // The compiler joins continued lines, even in the middle of a word.
        let joined = source.replace("\\\r\n", "").replace("\\\n", "");
        let mut plain = Plain { code: String::new(), with_strings: String::new() };
        let mut rest = joined.as_str();
        while let Some(character) = rest.chars().next() {
            let skipped = if rest.starts_with("//") {
                rest.find('\n').unwrap_or(rest.len())
            } else if let Some(comment) = rest.strip_prefix("/*") {
                comment.find("*/").map_or(rest.len(), |end| end + 4)
            } else {
                0
            };
            if skipped > 0 {
                let lines = rest[..skipped].matches('\n').count();
                plain.both(" ");
                plain.both(&"\n".repeat(lines));
                rest = &rest[skipped..];
                continue;
            }
            if let Some(length) = string(rest) {
                plain.code.push_str("\"\"");
                plain.code.push_str(&"\n".repeat(rest[..length].matches('\n').count()));
                plain.with_strings.push_str(&rest[..length]);
                rest = &rest[length..];
                continue;
            }
            plain.both(character.encode_utf8(&mut [0; 4]));
            rest = &rest[character.len_utf8()..];
        }
        plain
    }

    fn both(&mut self, text: &str) {
        self.code.push_str(text);
        self.with_strings.push_str(text);
    }
}

/// Returns the length of the string or character literal that begins here.
fn string(text: &str) -> Option<usize> {
    if let Some(raw) = text.strip_prefix("R\"") {
        let open = raw.find('(')?;
        let end = format!("){}\"", &raw[..open]);
        return Some(raw.find(&end).map_or(text.len(), |at| 2 + at + end.len()));
    }
    let quote = text.chars().next().filter(|character| ['"', '\''].contains(character))?;
    let mut escaped = false;
    for (index, character) in text.char_indices().skip(1) {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '\n' => return Some(index),
            character if character == quote => return Some(index + 1),
            _ => {}
        }
    }
    Some(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(source: &str) -> Option<&'static str> {
        breach(source).map(|breach| breach.rule)
    }

    #[test]
    fn an_honest_kernel_breaks_nothing() {
        let source = "#include <hip/hip_runtime.h>\n#include <cmath>\n// system(\"fork\") in a comment, and a stream of words\n\
                      extern \"C\" __global__ void solution(const float* open_mask, float* threads, size_t n) {\n\
                      size_t i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) threads[i] = open_mask[i]; printf(\"fork %d\", 1); }";
        assert_eq!(breach(source), None);
    }

    #[test]
    fn libraries_are_named_and_other_words_are_free() {
        assert_eq!(rule("rocblas::gemm(h);"), Some("library"));
        assert_eq!(rule("thrust::sort(a, b);"), Some("library"));
        for source in
            ["int open, connect, signal, system, thread, async;", "float* stream; // thrust", "a##b"]
        {
            assert_eq!(rule(source), None, "{source}");
        }
    }

    #[test]
    fn includes_outside_the_list_are_refused() {
        for source in [
            "#include \"/etc/passwd\"",
            "#include </etc/passwd>",
            "#include \"../secret.h\"",
            "# /* x */ include <unistd.h>",
            "#include <sys/mman.h>",
            "#include MACRO",
            "#include <thread>",
            "#include <hip/hip_runtime/../../../../etc/passwd>",
            "#embed \"/etc/passwd\"",
        ] {
            assert!(rule(source).is_some(), "{source}");
        }
        assert_eq!(rule("#include <hip/hip_fp16.h>\n#include<vector>"), None);
    }

    #[test]
    fn assembler_may_not_read_files() {
        assert_eq!(rule("__asm__(\".incbin \\\"/etc/passwd\\\"\");"), Some("assembler"));
        assert_eq!(rule("asm volatile(\"v_mov_b32 %0, 1\" : \"=v\"(x));"), None);
    }

    #[test]
    fn a_breach_names_its_line() {
        let found = breach("// one\n/* two\n three */\nthrust::sort();").unwrap();
        assert_eq!(found.details(), "line 4");
    }
}
