//! Parts of a case: some rows of its outputs, and the inputs that these depend on. The reference computes a part of a case that would
//! take it minutes in milliseconds, so that a judge can verify something of every call.

use crate::argument::{Argument, Prepared, Value};
use crate::case::Case;
use crate::compare::Expected;
use crate::dtype::Dtype;
use crate::generator::Generator;
use crate::parameter::{Direction, Parameter};
use crate::problem::Problem;
use crate::reference::row::Call;
use crate::values::Values;
use std::ops::Range;

/// A set of rows, columns or other indices along which elements of the outputs do not depend on each other.
#[derive(Clone, Copy, Debug)]
enum Axis {
    /// Every extent that is this size. The reference computes a case with a smaller size.
    Size(&'static str),
    /// These dimensions of parameters. Other parameters have an extent of the same size and are needed whole, so the case keeps its
    /// size, and the reference asks for the indices ([`Call::places`]) or uses the lengths of its inputs.
    Of(&'static [(&'static str, usize)]),
}

use Axis::{Of, Size};

/// The axes of each problem that has any. The others need all of their inputs for every output, or overlapping windows of them.
const AXES: &[(&[&str], &[Axis])] = &[
    (&["elu", "gelu", "hard-sigmoid", "leaky-relu", "mish", "relu", "selu"], &[Size("n"), Size("m")]),
    (&["sigmoid", "soft-plus", "swiglu", "swish", "tanh", "diagonal-matmul"], &[Size("n"), Size("m")]),
    (&["all-reduce", "axpy", "cosine-similarity", "ecc-point-negation", "geglu", "hinge-loss"], &[Size("n")]),
    (&["huber-loss", "kl-loss", "k-means-assign", "modular-power", "top2-gating"], &[Size("n")]),
    (&["vector-addition", "vector-multiply-ff"], &[Size("n")]),
    (&["argmax", "argmin", "max-dim", "mean-dim", "min-dim", "product-dim"], &[Size("outer"), Size("inner")]),
    (&["sum-dim"], &[Size("outer"), Size("inner")]),
    (&["batched-matmul"], &[Size("b"), Size("m"), Size("n")]),
    (&["causal-attention", "scaled-dot-attention"], &[Size("B"), Size("H"), QUERIES]),
    (&["decode-attention"], &[Size("H")]),
    (&["depthwise-conv-2d"], &[Size("C")]),
    (&["embedding-lookup"], &[Size("n"), Size("d")]),
    (&["gemm-multiply-leakyrelu", "matmul-swish-scaling"], &[Size("M"), Size("N")]),
    (&["gemm-relu"], &[Size("B"), Size("M")]),
    (&["grayscale", "threshold"], &[Size("height"), Size("width")]),
    (&["group-norm", "l1-norm", "l2-norm", "layer-norm", "rms-norm"], &[Size("B")]),
    (&["grouped-query-attention"], &[Size("B"), QUERIES]),
    (&["instance-norm"], &[Size("B"), Size("C")]),
    (&["int4-matmul", "int8-matmul", "lora-linear", "matmul-two-gpus"], &[Size("m"), Size("n")]),
    (&["matrix-multiplication", "mxfp4-gemm", "mxfp8-gemm"], &[Size("m"), Size("n")]),
    (&["log-softmax", "matrix-vector", "mxfp4-dequantize", "mxfp4-quantize"], &[Size("m")]),
    (&["mxfp8-dequantize", "mxfp8-quantize", "softmax"], &[Size("m")]),
    (&["lower-trig-matmul", "square-matmul", "symmetric-matmul", "upper-trig-matmul"], SQUARE),
    (&["matmul-3d"], &[Size("n"), Size("m"), Size("l")]),
    (&["matmul-4d"], &[Size("b"), Size("i"), Size("j"), Size("k")]),
    (&["matmul-swish"], &[Size("batch_size"), Size("out_features")]),
    (&["matrix-scalar"], &[Of(&[("input_matrix", 0), ("output_matrix", 0)])]),
    (&["rope"], &[Size("S"), Size("H")]),
    (&["transpose"], &[Size("rows"), Size("columns")]),
];

const QUERIES: Axis = Of(&[("Q", 2), ("output", 2)]);
const SQUARE: &[Axis] = &[Of(&[("input_a", 0), ("output_c", 0)]), Of(&[("input_b", 1), ("output_c", 1)])];

/// Where the contents of an argument come from.
#[derive(Clone, Copy, Debug)]
pub enum Source<'a> {
    /// They are known.
    Known(&'a [u8]),
    /// A generator computes them from a seed.
    Generated(Generator, u64),
}

/// Some indices along every axis of a case.
#[derive(Debug)]
pub struct Part<'a> {
    problem: &'a Problem,
    /// The case as the reference sees it.
    case: Case,
    dtype: Dtype,
    /// The indices along each axis, ascending.
    chosen: Vec<Vec<usize>>,
    /// Share of the elements of the outputs.
    share: f64,
    arguments: Vec<Gathered>,
}

/// The elements of one argument that belong to a part.
#[derive(Debug)]
struct Gathered {
    /// The axis of each dimension, if there is one.
    axes: Vec<Option<usize>>,
    /// Extents of the part.
    shape: Vec<usize>,
    /// Positions of the elements in the whole argument, ascending.
    runs: Vec<Range<usize>>,
}

impl Problem {
    /// Returns the number of indices along every axis of which a part may have some. There are none if the outputs depend on everything.
    pub fn axes(&self, case: &Case) -> Vec<usize> {
        let extent = |axis: &Axis| match axis {
            Size(size) => usize::try_from(case.size(size)).unwrap_or(0),
            Of(places) => {
                let (name, dimension) = places[0];
                self.parameter(name).map_or(0, |parameter| parameter.extents(case)[dimension])
            }
        };
        self.own_axes().iter().map(extent).collect()
    }

    /// Returns the part of a case with these indices along every axis, in ascending order.
    pub fn part(&self, case: &Case, dtype: Dtype, chosen: Vec<Vec<usize>>) -> Part<'_> {
        let axes = self.own_axes();
        let mut sizes = case.sizes.clone();
        let mut share = 1.0;
        for ((axis, chosen), extent) in axes.iter().zip(&chosen).zip(self.axes(case)) {
            share *= chosen.len() as f64 / extent as f64;
            if let Size(size) = axis {
                sizes.insert((*size).to_owned(), chosen.len() as i64);
            }
        }
        let gathered = |parameter: &Parameter| {
            let axis_of = |dimension: usize| {
                let is_its = |axis: &Axis| match axis {
                    Size(size) => parameter.shape[dimension].text() == *size,
                    Of(places) => places.contains(&(parameter.name.as_str(), dimension)),
                };
                axes.iter().position(is_its)
            };
            let whole = parameter.extents(case);
            let axes: Vec<Option<usize>> = (0..whole.len()).map(axis_of).collect();
            let indices: Vec<Option<&[usize]>> =
                axes.iter().map(|axis| axis.map(|axis| chosen[axis].as_slice())).collect();
            let extents = whole.iter().zip(&indices);
            let shape = extents.map(|(extent, indices)| indices.map_or(*extent, <[usize]>::len)).collect();
            Gathered { axes, shape, runs: runs(&whole, &indices) }
        };
        let arguments = self.parameters.iter().map(gathered).collect();
        Part { problem: self, case: Case { sizes, ..case.clone() }, dtype, chosen, share, arguments }
    }

    fn own_axes(&self) -> &'static [Axis] {
        let own = AXES.iter().find(|(slugs, _)| slugs.contains(&self.slug.as_str()));
        own.map_or(&[], |(_, axes)| axes)
    }
}

impl Part<'_> {
    /// Returns the operations of the reference for this part, given those of the whole case.
    pub fn flops(&self, whole: f64) -> f64 {
        whole * self.share
    }

    /// Returns the number of elements of all inputs of the part.
    pub fn inputs(&self) -> usize {
        let inputs = self.problem.parameters.iter().zip(&self.arguments);
        let inputs =
            inputs.filter(|(parameter, _)| matches!(parameter.direction, Direction::In | Direction::InOut));
        inputs.map(|(_, gathered)| gathered.shape.iter().product::<usize>()).sum()
    }

    /// Returns for each output its position in the signature, and the ranges of bytes that the part has of it, ascending.
    pub fn outputs(&self) -> impl Iterator<Item = (usize, Vec<Range<usize>>)> {
        let arguments = self.problem.parameters.iter().zip(&self.arguments).enumerate();
        arguments.filter(|(_, (parameter, _))| is_output(parameter)).map(|(index, (parameter, gathered))| {
            let size = parameter.element.dtype(self.dtype).size();
            (index, gathered.runs.iter().map(|run| run.start * size..run.end * size).collect())
        })
    }

    /// Computes the expected outputs of the part. `source` has the contents of an argument, by its position in the signature.
    pub fn expected<'s>(&self, source: impl Fn(usize) -> Source<'s>) -> Vec<Expected> {
        let mut arguments = Vec::new();
        for (index, (parameter, gathered)) in self.problem.parameters.iter().zip(&self.arguments).enumerate()
        {
            let (element, shape) = (parameter.element.dtype(self.dtype), gathered.shape.clone());
            let bytes = || gathered.bytes(element, source(index));
            let value = match parameter.direction {
                Direction::In => Value::Input { element, shape, bytes: bytes() },
                Direction::InOut => Value::InOut { element, shape, bytes: bytes() },
                Direction::Out => Value::Output { element, shape },
                Direction::Scalar => Value::Scalar { element, bytes: bytes() },
            };
            arguments.push(Argument { name: parameter.name.clone(), device: parameter.device, value });
        }
        let places =
            self.problem.own_axes().iter().zip(&self.chosen).filter_map(|(axis, chosen)| match axis {
                Of(places) => Some((places[0].0.to_owned(), chosen.clone())),
                Size(_) => None,
            });
        let prepared = Prepared { arguments, flops: None, bytes: 0.0 };
        let call = Call::of_part(&self.case, &prepared, places.collect());
        let outputs = self.problem.parameters.iter().zip(&self.arguments).filter(|(it, _)| is_output(it));
        let expect = |((parameter, gathered), values): ((&Parameter, &Gathered), Values)| {
            let (element, shape) = (parameter.element.dtype(self.dtype), gathered.shape.clone());
            assert_eq!(
                shape.iter().product::<usize>(),
                values.len(),
                "{}: {}",
                self.problem.slug,
                parameter.name
            );
            Expected { name: parameter.name.clone(), element, shape, values }
        };
        outputs.zip((self.problem.row.exact)(&call)).map(expect).collect()
    }

    /// Converts the coordinates of an element in the part of an output to those in the whole output.
    pub fn coordinates(&self, output: usize, in_part: &[usize]) -> Vec<usize> {
        let axes = &self.arguments[output].axes;
        let whole =
            |(axis, index): (&Option<usize>, &usize)| axis.map_or(*index, |axis| self.chosen[axis][*index]);
        axes.iter().zip(in_part).map(whole).collect()
    }
}

impl Gathered {
    /// Returns the contents of the part of an argument. A scalar is needed whole.
    fn bytes(&self, element: Dtype, source: Source<'_>) -> Vec<u8> {
        let mut bytes = Vec::new();
        for run in &self.runs {
            match source {
                Source::Known(whole) => {
                    bytes.extend_from_slice(&whole[run.start * element.size()..run.end * element.size()]);
                }
                Source::Generated(generator, seed) => generator.append(seed, run.clone(), &mut bytes),
            }
        }
        bytes
    }
}

fn is_output(parameter: &Parameter) -> bool {
    matches!(parameter.direction, Direction::Out | Direction::InOut)
}

/// Returns the positions of elements in a row-major array, from the indices along each dimension; all of them where there are none.
fn runs(shape: &[usize], indices: &[Option<&[usize]>]) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = std::iter::once(0..1).collect();
    let mut size = 1;
    for (extent, indices) in shape.iter().zip(indices).rev() {
        let mut outer: Vec<Range<usize>> = Vec::new();
        let whole = found.len() == 1 && found[0] == (0..size);
        match indices {
            None if whole => outer.push(0..extent * size),
            _ => {
                let count = indices.map_or(*extent, <[usize]>::len);
                for index in (0..count).map(|at| indices.map_or(at, |indices| indices[at])) {
                    for run in &found {
                        let (start, end) = (index * size + run.start, index * size + run.end);
                        match outer.last_mut() {
                            Some(last) if last.end == start => last.end = end,
                            _ => outer.push(start..end),
                        }
                    }
                }
            }
        }
        found = outer;
        size *= extent;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::{Place, Set};
    use crate::maker::Random;
    use crate::set::{all, find};

    /// Some indices, ascending; at least one.
    fn some(extent: usize, random: &mut Random) -> Vec<usize> {
        let mut chosen = random.permutation(extent);
        chosen.truncate(extent.div_ceil(3));
        chosen.sort_unstable();
        chosen
    }

    fn gathered(values: &Values, runs: &[Range<usize>]) -> Values {
        match values {
            Values::Floats(all) => {
                Values::Floats(runs.iter().flat_map(|run| all[run.clone()].to_vec()).collect())
            }
            Values::Integers(all) => {
                Values::Integers(runs.iter().flat_map(|run| all[run.clone()].to_vec()).collect())
            }
            Values::Naturals(all) => {
                Values::Naturals(runs.iter().flat_map(|run| all[run.clone()].to_vec()).collect())
            }
        }
    }

    #[test]
    fn a_part_has_the_elements_of_the_whole() {
        let mut tried = 0;
        for (slugs, _) in AXES {
            for slug in *slugs {
                let problem = find(slug).unwrap_or_else(|| panic!("{slug} is not a problem"));
                for case in problem.cases(Set::Check, Place::Emulated) {
                    let dtype = problem.dtypes[0];
                    let prepared = problem.prepare(case, dtype, 5);
                    let whole = problem.expected(case, dtype, &prepared);
                    let mut random = Random::new(slug, case, 7, "rows");
                    let chosen =
                        problem.axes(case).into_iter().map(|extent| some(extent, &mut random)).collect();
                    let part = problem.part(case, dtype, chosen);
                    let source = |index: usize| {
                        Source::Known(prepared.arguments[index].value.bytes().unwrap_or_default())
                    };
                    let found = part.expected(source);
                    for ((found, whole), (index, _)) in found.iter().zip(&whole).zip(part.outputs()) {
                        let runs = &part.arguments[index].runs;
                        assert_eq!(found.values, gathered(&whole.values, runs), "{slug}: {}", case.name);
                    }
                    tried += 1;
                }
            }
        }
        assert!(tried > 200, "{tried}");
    }

    #[test]
    fn generated_inputs_are_those_of_the_whole() {
        let problem = find("matrix-multiplication").unwrap();
        let case = problem.cases(Set::Check, Place::Emulated).last().unwrap();
        let dtype = problem.dtypes[0];
        let mut prepared = problem.prepare(case, dtype, 1);
        let generators = problem.generators(case, dtype).unwrap();
        for (argument, generator) in prepared.arguments.iter_mut().zip(&generators) {
            if let Some(generator) = generator {
                argument.value.set_bytes(generator.elements(9));
            }
        }
        let part = problem.part(case, dtype, vec![vec![0, 3, 4], vec![7, 100]]);
        let known = |index: usize| Source::Known(prepared.arguments[index].value.bytes().unwrap_or_default());
        let from_generators = |index: usize| match generators[index] {
            Some(generator) => Source::Generated(generator, 9),
            None => known(index),
        };
        assert_eq!(part.expected(known), part.expected(from_generators));
        assert_eq!(part.coordinates(2, &[2, 1]), [4, 100]);
        assert!(part.inputs() < 600, "{}", part.inputs());
    }

    #[test]
    fn a_size_of_an_axis_is_in_no_other_formula_of_a_shape() {
        for problem in all() {
            for axis in problem.own_axes() {
                let Size(size) = axis else { continue };
                let mut shapes = problem.parameters.iter().flat_map(|parameter| &parameter.shape);
                assert!(
                    shapes.all(|formula| formula.text() == *size || !formula.names().contains(size)),
                    "{}",
                    problem.slug
                );
                assert!(
                    problem.derived.iter().all(|(_, formula)| !formula.names().contains(size)),
                    "{}",
                    problem.slug
                );
            }
        }
    }

    #[test]
    fn neighbours_are_one_run() {
        let one = |run: Range<usize>| Vec::from([run]);
        assert_eq!(runs(&[4, 3], &[Some(&[1, 2]), None]), one(3..9));
        assert_eq!(runs(&[4, 3], &[None, Some(&[0, 1])]), [0..2, 3..5, 6..8, 9..11]);
        assert_eq!(runs(&[4, 3], &[Some(&[0, 3]), Some(&[2])]), [2..3, 11..12]);
        assert_eq!(runs(&[], &[]), one(0..1));
    }
}
