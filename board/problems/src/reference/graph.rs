//! Graph algorithms, on weight matrices (zero means no edge) and on adjacency lists.

use super::real::{Mode, Real};
use super::row::{Call, Row, floats, integers, rows};
use crate::maker::Maker;
use crate::values::Values;
use std::collections::VecDeque;

pub(super) const ROWS: &[Row] = rows! {
    "all-pairs-shortest-path" => all_pairs, ring;
    "bfs" => bfs, neighbours;
    "min-spanning-tree" => spanning_tree, symmetric_ring;
    "shortest-path" => from_source, ring;
};

/// Computes the distances from one vertex, by Dijkstra's algorithm on a matrix.
fn distances<M: Mode>(weights: &[Real<M>], source: usize, n: usize) -> Vec<Real<M>> {
    let mut distance: Vec<Option<Real<M>>> = vec![None; n];
    let mut done = vec![false; n];
    distance[source] = Some(Real::zero());
    loop {
        let open = (0..n).filter(|v| !done[*v]).filter_map(|v| distance[v].map(|d| (v, d)));
        let Some((nearest, near)) = open.reduce(|a, b| if b.1 < a.1 { b } else { a }) else { break };
        done[nearest] = true;
        for (to, weight) in weights[nearest * n..(nearest + 1) * n].iter().enumerate() {
            if *weight > Real::zero() && !done[to] {
                let through = near + *weight;
                distance[to] = Some(distance[to].map_or(through, |known| known.min(through)));
            }
        }
    }
    // The input makers include a ring through all vertices, so every vertex is reached.
    distance.into_iter().map(|distance| distance.unwrap_or(Real::zero())).collect()
}

fn all_pairs<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let n = call.size("n");
    let weights = call.floats("adj_matrix");
    floats((0..n).flat_map(|source| distances(&weights, source, n)))
}

fn from_source<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    floats(distances(&call.floats("adj_matrix"), call.size("source"), call.size("n")))
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
    let mut edges: Vec<(i64, i64)> =
        (0..e).map(|_| (random.integer(0, last), random.integer(0, last))).collect();
    edges.sort_unstable();
    let offsets: Vec<i64> =
        (0..=n as i64).map(|v| edges.partition_point(|(from, _)| *from < v) as i64).collect();
    maker.integers("row_offsets", offsets);
    maker.integers("columns", edges.into_iter().map(|(_, to)| to));
}
