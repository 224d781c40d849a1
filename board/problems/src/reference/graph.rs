//! Graph algorithms, on weight matrices (zero means no edge) and on adjacency lists.

use super::real::{Mode, Real};
use super::row::{Call, Row, WORK, floats, integers, rows, write};
use crate::maker::Maker;
use crate::threads::{fill, parts};
use crate::values::Values;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

pub(super) const ROWS: &[Row] = rows! {
    "all-pairs-shortest-path" => all_pairs, ring;
    "bfs" => bfs, neighbours;
    "min-spanning-tree" => spanning_tree, symmetric_ring;
    "shortest-path" => from_source, ring;
};

/// The edges of a graph, by the vertex that they start from.
struct Edges<M> {
    /// Where the edges of each vertex begin, and their end.
    starts: Vec<usize>,
    edges: Vec<(usize, Real<M>)>,
}

impl<M: Mode> Edges<M> {
    /// Reads a matrix of weights.
    fn of(call: &Call<'_, M>, name: &str, n: usize) -> Self {
        let weights = call.reals(name);
        let of_vertices = parts(n, LINES, |vertices| {
            let rows = weights.range(vertices.start * n..vertices.end * n);
            let edges = |row: &[Real<M>]| -> Vec<(usize, Real<M>)> {
                row.iter().copied().enumerate().filter(|(_, weight)| *weight > Real::zero()).collect()
            };
            rows.chunks_exact(n).map(edges).collect::<Vec<_>>()
        });
        let mut it = Self { starts: vec![0], edges: Vec::new() };
        for edges in of_vertices.into_iter().flatten() {
            it.edges.extend(edges);
            it.starts.push(it.edges.len());
        }
        it
    }

    fn from(&self, vertex: usize) -> &[(usize, Real<M>)] {
        &self.edges[self.starts[vertex]..self.starts[vertex + 1]]
    }

    /// Computes the distances from one vertex, by Dijkstra's algorithm. A distance is the least sum along any path, whatever the order of
    /// equally near vertices: rounded sums grow with their terms.
    fn distances(&self, source: usize) -> Vec<Real<M>> {
        let n = self.starts.len() - 1;
        let mut distance: Vec<Option<Real<M>>> = vec![None; n];
        let mut done = vec![false; n];
        distance[source] = Some(Real::zero());
        // The bits of numbers that are not negative have the order of the numbers.
        let mut open = BinaryHeap::from([Reverse((0, source))]);
        while let Some(Reverse((_, nearest))) = open.pop() {
            if std::mem::replace(&mut done[nearest], true) {
                continue;
            }
            let Some(near) = distance[nearest] else { continue };
            for (to, weight) in self.from(nearest) {
                let through = near + *weight;
                if !done[*to] && distance[*to].is_none_or(|known| through < known) {
                    distance[*to] = Some(through);
                    open.push(Reverse((through.output().to_bits(), *to)));
                }
            }
        }
        // The input makers include a ring through all vertices, so every vertex is reached.
        distance.into_iter().map(|distance| distance.unwrap_or(Real::zero())).collect()
    }
}

/// The lower half of a pair.
pub(super) const LOW: u64 = u32::MAX as u64;

/// Sorts pairs of numbers below 2^32. Each is one number, the first in its upper half.
pub(super) fn sorted_pairs(pairs: impl Iterator<Item = (u64, u64)>) -> Vec<u64> {
    let mut pairs: Vec<u64> = pairs.map(|(first, second)| first << 32 | second).collect();
    pairs.sort_unstable();
    pairs
}

/// Returns where the pairs of each first number below `count` begin, and the end.
pub(super) fn starts(pairs: &[u64], count: usize) -> Vec<i64> {
    let mut starts = vec![0; count + 1];
    pairs.iter().for_each(|pair| starts[(pair >> 32) as usize + 1] += 1);
    starts.iter_mut().fold(0, |sum, start| {
        *start += sum;
        *start
    });
    starts
}

/// Rows of a matrix that are read at a time.
const LINES: usize = 16;

fn all_pairs<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let n = call.size("n");
    let edges = Edges::of(call, "adj_matrix", n);
    vec![Values::Floats(fill(n * n, n, 8 * WORK, |range, part| {
        let sources = range.start / n..range.end / n;
        sources.zip(part.chunks_exact_mut(n)).for_each(|(source, to)| write(to, edges.distances(source)));
    }))]
}

fn from_source<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    floats(Edges::of(call, "adj_matrix", call.size("n")).distances(call.size("source")))
}

/// Computes the weight of the minimum spanning tree, by Prim's algorithm.
fn spanning_tree<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let n = call.size("n");
    let weights = call.floats("A");
    let mut reach: Vec<Option<Real<M>>> = vec![None; n];
    let mut inside = vec![false; n];
    let mut chosen = Vec::new();
    let mut newest = 0;
    loop {
        inside[newest] = true;
        for to in (0..n).filter(|to| !inside[*to]) {
            let weight = weights[newest * n + to];
            if weight > Real::zero() {
                reach[to] = Some(reach[to].map_or(weight, |known| known.min(weight)));
            }
        }
        let open = (0..n).filter(|v| !inside[*v]).filter_map(|v| reach[v].map(|w| (v, w)));
        let Some((next, weight)) = open.reduce(|a, b| if b.1 < a.1 { b } else { a }) else { break };
        chosen.push(weight);
        newest = next;
    }
    floats([Real::sum_of(&chosen)])
}

fn bfs<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let (offsets, columns) = (call.integers("row_offsets"), call.integers("columns"));
    let source = call.size("source");
    let mut levels = vec![-1; call.size("n")];
    levels[source] = 0;
    let mut queue = VecDeque::from([source]);
    while let Some(vertex) = queue.pop_front() {
        for to in &columns[offsets[vertex] as usize..offsets[vertex + 1] as usize] {
            if levels[*to as usize] < 0 {
                levels[*to as usize] = levels[vertex] + 1;
                queue.push_back(*to as usize);
            }
        }
    }
    integers(levels)
}

/// Generates about eight edges per vertex, and a ring of heavy edges through all vertices.
fn weights(maker: &Maker<'_>, name: &str) -> Vec<f64> {
    let n = maker.size("n");
    let mut random = maker.random(name);
    let mut matrix: Vec<f64> = (0..n * n)
        .map(|_| if random.integer(0, n as i64) < 8 { random.uniform(0.1, 1.0) } else { 0.0 })
        .collect();
    for vertex in 0..n {
        matrix[vertex * n + vertex] = 0.0;
        if n > 1 {
            matrix[vertex * n + (vertex + 1) % n] = random.uniform(1.0, 2.0);
        }
    }
    matrix
}

fn ring(maker: &mut Maker<'_>) {
    let matrix = weights(maker, "adj_matrix");
    maker.floats("adj_matrix", matrix);
}

fn symmetric_ring(maker: &mut Maker<'_>) {
    let n = maker.size("n");
    let mut matrix = weights(maker, "A");
    for row in 0..n {
        for column in 0..row {
            let weight = matrix[row * n + column].max(matrix[column * n + row]);
            matrix[row * n + column] = weight;
            matrix[column * n + row] = weight;
        }
    }
    maker.floats("A", matrix);
}

/// Generates `e` random edges, sorted by source vertex; some vertices are unreachable.
fn neighbours(maker: &mut Maker<'_>) {
    let (n, e) = (maker.size("n"), maker.size("e"));
    let mut random = maker.random("edges");
    let last = n as i64 - 1;
    let mut vertex = || random.integer(0, last) as u64;
    let edges = sorted_pairs((0..e).map(|_| (vertex(), vertex())));
    maker.integers("row_offsets", starts(&edges, n));
    maker.integers("columns", edges.into_iter().map(|edge| (edge & LOW) as i64));
}
