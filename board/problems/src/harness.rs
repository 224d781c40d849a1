//! Generator for the stand-alone harness: a HIP C++ program for a problem, an element type and a solution, without Remora libraries.
//!
//! The program first checks small cases, whose expected outputs the reference computes, and then measures a large one.

mod makers;

use crate::case::{Case, Place, Set};
use crate::dtype::Dtype;
use crate::expression::Expression;
use crate::launch::{Formula, LaunchError};
use crate::parameter::{Direction, Fill, Parameter};
use crate::problem::Problem;
use crate::shape::Shape;
use crate::values::Values;
use std::fmt::Write as _;

const FRAME: &str = include_str!("harness/frame.hip");

/// Most bytes of arguments of a check case that is embedded in the program.
const SMALL: usize = 48 << 10;
/// Most check cases that are embedded.
const CHECKS: usize = 3;
/// Seed of the embedded inputs. The board uses other seeds.
const SEED: u64 = 0x6861_726e_6573_7300;

/// Generates a complete program. Without a source it only declares `solution` and must be linked with the file that defines it.
pub fn harness(problem: &Problem, dtype: Dtype, source: Option<&str>) -> Result<String, LaunchError> {
    let formula = problem.launch.overridden(source.unwrap_or_default())?;
    let shape = source.and_then(Shape::of).unwrap_or(problem.shape());
    let mut text = String::new();
    let _ = write!(
        text,
        "static const char* const PROBLEM = \"{}\";\nstatic const char* const DATA_TYPE = \"{dtype}\";\nstatic const int DEVICES = {};\n\n",
        problem.slug, problem.devices
    );
    sizes(problem, &mut text);
    numbers(problem, dtype, &mut text);
    arguments(problem, dtype, &mut text);
    call(shape, &formula, &mut text);
    cases(problem, dtype, &mut text);
    let solution = match source {
        Some(source) => {
            format!("\n#line 1 \"solution.hip\"\n{}\n#line 1 \"harness.hip\"\n\n", source.trim_end())
        }
        None => format!("\n{};\n\n", problem.signature(dtype, shape)),
    };
    let head = format!(
        "// {}: a stand-alone harness.\n//   hipcc -O3 -std=c++17 {} -o benchmark && ./benchmark\n// With an unknown option it prints its cases and options.\n\n",
        problem.title,
        if source.is_some() { "harness.hip" } else { "solution.hip harness.hip" },
    );
    Ok(head + &FRAME.replace("@PROBLEM@\n", &text).replace("@SOLUTION@\n", &solution))
}

/// Returns all names of a case: integers first, then real numbers.
fn names(problem: &Problem) -> (Vec<&str>, Vec<&str>) {
    let case = &problem.cases[0];
    let whole: Vec<&str> = case.sizes.keys().map(String::as_str).collect();
    (whole, case.values.keys().map(String::as_str).collect())
}

fn sizes(problem: &Problem, text: &mut String) {
    let (whole, real) = names(problem);
    text.push_str("struct Sizes {\n");
    for name in &whole {
        let _ = writeln!(text, "    long long {name} = 0;");
    }
    for name in &real {
        let _ = writeln!(text, "    double {name} = 0;");
    }
    text.push_str("};\n\nstatic void derive(Sizes& s) {\n    (void)s;\n");
    for (name, formula) in &problem.derived {
        let _ = writeln!(text, "    s.{name} = {};", formula.c(false));
    }
    text.push_str("}\n\nstatic bool set(Sizes& s, const std::string& name, const char* value) {\n");
    for name in whole.iter().filter(|name| !problem.derived.iter().any(|(derived, _)| derived == *name)) {
        let _ = writeln!(text, "    if (name == \"{name}\") return s.{name} = std::atoll(value), true;");
    }
    for name in &real {
        let _ = writeln!(text, "    if (name == \"{name}\") return s.{name} = std::atof(value), true;");
    }
    text.push_str(
        "    return false;\n}\n\nstatic std::string describe(const Sizes& s) {\n    std::string text;\n",
    );
    for name in whole.iter().chain(&real) {
        let _ = writeln!(
            text,
            "    text += (text.empty() ? \"{name}=\" : \", {name}=\") + std::to_string(s.{name});"
        );
    }
    text.push_str("    return text;\n}\n\n");
}

fn numbers(problem: &Problem, dtype: Dtype, text: &mut String) {
    let formula = |formula: &Option<Expression>, none: &str| {
        formula.as_ref().map_or_else(|| none.to_owned(), |formula| formula.c(true))
    };
    let flops = formula(&problem.flops, "0");
    let _ = write!(text, "static double flops(const Sizes& s) {{ (void)s; return {flops}; }}\n\n");
    let bytes = match &problem.bytes {
        Some(bytes) => bytes.c(true).replace("(double)s.T", &format!("{}.0", dtype.size())),
        None => {
            let moved =
                problem.parameters.iter().filter(|p| p.direction != Direction::Scalar).map(|parameter| {
                    let passes = if parameter.direction == Direction::InOut { 2 } else { 1 };
                    let size = passes * parameter.element.dtype(dtype).size();
                    parameter.shape.iter().fold(format!("{size}.0"), |product, extent| {
                        format!("{product} * {}", extent.c(true))
                    })
                });
            moved.collect::<Vec<_>>().join(" + ")
        }
    };
    let _ = write!(text, "static double bytes(const Sizes& s) {{ (void)s; return {bytes}; }}\n\n");
    let tolerance = problem.tolerance(dtype);
    let scale = formula(&problem.scale, "1");
    let _ = write!(text, "static double relative_tolerance() {{ return {:e}; }}\n\n", tolerance.rtol);
    let _ = write!(
        text,
        "static double absolute_tolerance(const Sizes& s) {{ (void)s; return {:e} * ({scale}); }}\n\n",
        tolerance.atol
    );
}

fn type_name(dtype: Dtype) -> String {
    dtype.name().to_uppercase()
}

fn arguments(problem: &Problem, dtype: Dtype, text: &mut String) {
    text.push_str(
        "static std::vector<Argument> arguments(const Sizes& s) {\n    std::vector<Argument> all;\n",
    );
    for parameter in &problem.parameters {
        let role = match parameter.direction {
            Direction::In => "IN",
            Direction::Out => "OUT",
            Direction::InOut => "INOUT",
            Direction::Scalar => "SCALAR",
        };
        let element = type_name(parameter.element.dtype(dtype));
        let shape: Vec<String> = parameter.shape.iter().map(|extent| extent.c(false)).collect();
        let _ = writeln!(
            text,
            "    all.push_back({{\"{}\", {role}, {element}, {{{}}}, {{}}, {}}});",
            parameter.name,
            shape.join(", "),
            parameter.device
        );
    }
    text.push_str(
        "    auto a = [&](const char* name) -> Argument& {\n        for (Argument& each : all)\n            if (!std::strcmp(each.name, name)) return each;\n        std::abort();\n    };\n    auto random = [](const char* name) {\n        uint64_t hash = 0xcbf29ce484222325ull;\n        for (; *name; ++name) hash = (hash ^ (uint64_t)*name) * 0x100000001b3ull;\n        return Random{hash};\n    };\n    (void)random;\n",
    );
    text.push_str(makers::of(&problem.slug).unwrap_or_default());
    for parameter in &problem.parameters {
        fill(parameter, dtype, text);
    }
    text.push_str("    return all;\n}\n\n");
}

fn fill(parameter: &Parameter, dtype: Dtype, text: &mut String) {
    let name = &parameter.name;
    let _ = match (parameter.direction, &parameter.fill) {
        (Direction::Out, _) | (_, Fill::Made) => Ok(()),
        (Direction::Scalar, _) => {
            let float = parameter.element.dtype(dtype).is_float();
            let value = parameter.value.as_ref().map_or_else(|| format!("s.{name}"), |value| value.c(float));
            if float {
                writeln!(text, "    a(\"{name}\").each([&](long long) {{ return (double)({value}); }});")
            } else {
                writeln!(text, "    a(\"{name}\").integers(random(\"{name}\"), {value}, {value});")
            }
        }
        (_, Fill::Uniform { low, high }) if parameter.element.dtype(dtype).is_float() => {
            writeln!(text, "    a(\"{name}\").uniform(random(\"{name}\"), {low:?}, {high:?});")
        }
        (_, Fill::Uniform { low, high }) => {
            let (low, high) = (low * 1000.0, high * 1000.0);
            writeln!(text, "    a(\"{name}\").integers(random(\"{name}\"), {low:.0}, {high:.0});")
        }
        (_, Fill::Integers { low, high }) => {
            let (low, high) = (low.c(false), high.c(false));
            writeln!(text, "    a(\"{name}\").integers(random(\"{name}\"), {low}, {high});")
        }
        (_, Fill::Bits) => writeln!(text, "    a(\"{name}\").random_bits(random(\"{name}\"));"),
    };
}

fn call(shape: Shape, formula: &Formula, text: &mut String) {
    match shape {
        Shape::Host => text.push_str(
            "static void print_launch(const Sizes&) { std::printf(\"Launch config: by the solution\\n\"); }\n\nstatic void call(const Sizes&, void** arguments) { call_host(&::solution, arguments); }\n\n",
        ),
        Shape::Kernel => {
            let three = |parts: &[Expression]| {
                let part = |axis: usize| {
                    parts.get(axis).map_or_else(|| "1".to_owned(), |part| format!("(unsigned)({})", part.c(false)))
                };
                format!("dim3({}, {}, {})", part(0), part(1), part(2))
            };
            let lds = formula.lds.as_ref().map_or_else(|| "0".to_owned(), |lds| lds.c(false));
            let _ = write!(
                text,
                "static Launch launch(const Sizes& s) {{\n    (void)s;\n    return {{{}, {}, (unsigned)({lds})}};\n}}\n\nstatic std::string extent(dim3 d);\n\nstatic void print_launch(const Sizes& s) {{\n    Launch l = launch(s);\n    std::printf(\"Launch config: grid=%s, block=%s\\n\", extent(l.grid).c_str(), extent(l.block).c_str());\n}}\n\nstatic void call(const Sizes& s, void** arguments) {{\n    Launch l = launch(s);\n    HARNESS_CHECK(hipLaunchKernel(reinterpret_cast<const void*>(&::solution), l.grid, l.block, arguments, l.lds, nullptr));\n}}\n\n",
                three(&formula.grid),
                three(&formula.block),
            );
        }
    }
}

fn cases(problem: &Problem, dtype: Dtype, text: &mut String) {
    let small = |case: &&Case| problem.bytes_of_arguments(case, dtype) <= SMALL;
    // The largest of the small cases, because the smallest reveal the fewest errors.
    let mut checked: Vec<&Case> = problem.cases(Set::Check, Place::Emulated).filter(small).collect();
    checked.sort_by_key(|case| problem.bytes_of_arguments(case, dtype));
    let checked = checked.split_off(checked.len().saturating_sub(CHECKS));
    text.push_str("struct Check {\n    const char* name;\n    Sizes sizes;\n    std::vector<const void*> inputs;\n    std::vector<const long double*> expected;\n};\n\n");
    let mut rows = String::new();
    for (number, case) in checked.iter().enumerate() {
        let prepared = problem.prepare(case, dtype, SEED);
        let (mut inputs, mut expected) = (Vec::new(), Vec::new());
        for (place, argument) in prepared.arguments.iter().enumerate() {
            let name = format!("INPUT_{number}_{place}");
            let scalar = problem.parameters[place].direction == Direction::Scalar;
            inputs.push(match argument.value.bytes() {
                Some(bytes) if !scalar => {
                    words(&name, bytes, text);
                    name
                }
                _ => "nullptr".to_owned(),
            });
        }
        for (place, output) in problem.expected(case, dtype, &prepared).iter().enumerate() {
            let name = format!("EXPECTED_{number}_{place}");
            right(&name, &output.values, text);
            expected.push(name);
        }
        let _ = writeln!(
            rows,
            "    {{\"{}\", {}, {{{}}}, {{{}}}}},",
            case.name,
            literal(problem, case),
            inputs.join(", "),
            expected.join(", ")
        );
    }
    let _ = write!(text, "static const Check CHECKS[] = {{\n{rows}}};\n\n");
    text.push_str("struct Measured {\n    const char* name;\n    Sizes sizes;\n};\n\n// Cases for real GPUs first, then for software GPUs.\nstatic const Measured CASES[] = {\n");
    for place in [Place::Real, Place::Emulated] {
        for case in problem.cases(Set::Bench, place) {
            let _ = writeln!(text, "    {{\"{}\", {}}},", case.name, literal(problem, case));
        }
    }
    text.push_str("};\n\n");
}

/// Formats the sizes of a case as a C++ initialiser.
fn literal(problem: &Problem, case: &Case) -> String {
    let (whole, real) = names(problem);
    let whole = whole.iter().map(|name| case.size(name).to_string());
    let real = real.iter().map(|name| format!("{:?}", case.values.get(*name).copied().unwrap_or_default()));
    format!("{{{}}}", whole.chain(real).collect::<Vec<_>>().join(", "))
}

fn words(name: &str, bytes: &[u8], text: &mut String) {
    let _ = write!(text, "static const uint64_t {name}[] = {{");
    for (index, chunk) in bytes.chunks(8).enumerate() {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        text.push_str(if index % 5 == 0 { "\n    " } else { " " });
        let _ = write!(text, "0x{:x},", u64::from_le_bytes(word));
    }
    text.push_str("\n};\n\n");
}

fn right(name: &str, values: &Values, text: &mut String) {
    let list: Vec<String> = match values {
        Values::Floats(values) => values.iter().map(|value| format!("{value:e}L")).collect(),
        Values::Integers(values) => values.iter().map(|value| format!("{value}.0L")).collect(),
        Values::Naturals(values) => values.iter().map(|value| format!("{value}.0L")).collect(),
    };
    let _ = write!(text, "static const long double {name}[] = {{");
    for line in list.chunks(8) {
        let _ = write!(text, "\n    {},", line.join(", "));
    }
    text.push_str("\n};\n\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::set::{all, find};

    #[test]
    fn every_problem_has_a_whole_program_in_every_type() {
        for problem in all() {
            for dtype in &problem.dtypes {
                let text = harness(problem, *dtype, None).unwrap();
                assert!(!text.contains('@') || !text.contains("@PROBLEM@"), "{}", problem.slug);
                assert!(text.contains("=== Benchmark Results ==="));
                let checks = text.split("static const Check CHECKS[] = {").nth(1).unwrap();
                assert!(checks.trim_start().starts_with('{'), "{}: nothing is checked", problem.slug);
            }
        }
    }

    #[test]
    fn inputs_that_have_to_fit_together_have_a_maker_in_both_languages() {
        for problem in all() {
            let made = problem.parameters.iter().any(|parameter| parameter.fill == Fill::Made);
            assert_eq!(made, makers::of(&problem.slug).is_some(), "{}", problem.slug);
            assert!(!made || problem.row.inputs.is_some(), "{}", problem.slug);
        }
    }

    #[test]
    fn the_solution_and_its_launch_are_in_the_program() {
        let problem = find("leaky-relu").unwrap();
        let source = format!("//!block 64\n{} {{}}", problem.signature(Dtype::Float32, Shape::Kernel));
        let text = harness(problem, Dtype::Float32, Some(&source)).unwrap();
        assert!(text.contains(&source) && text.contains("hipLaunchKernel"));
        assert!(text.contains("dim3((unsigned)(64ll), 1, 1)"));
        let host = format!("{} {{}}", problem.signature(Dtype::Float32, Shape::Host));
        let text = harness(problem, Dtype::Float32, Some(&host)).unwrap();
        assert!(text.contains("call_host(&::solution, arguments)"));
        assert!(harness(problem, Dtype::Float32, Some("//!block 0x")).is_err());
    }
}
