//! C++ counterparts of the input makers. They are equivalent for measuring, but do not produce the same numbers.
//!
//! Each is a function body that fills the arguments `a(name)` for the sizes `s`, with random numbers from `random(name)`.

/// Returns the input maker of a problem whose inputs depend on each other.
pub(super) fn of(slug: &str) -> Option<&'static str> {
    Some(match slug {
        "hinge-loss" => {
            r#"    Random r = random("targets");
    a("targets").each([&](long long) { return (double)(2 * r.integer(0, 1) - 1); });
"#
        }
        "kl-loss" => {
            r#"    a("predictions").uniform(random("predictions"), 0.1 / (double)s.n, 1.9 / (double)s.n);
    a("targets").uniform(random("targets"), 0.1 / (double)s.n, 1.9 / (double)s.n);
"#
        }
        "lower-trig-matmul" => {
            r#"    for (const char* name : {"input_a", "input_b"}) {
        Random r = random(name);
        a(name).each([&](long long i) { double x = r.uniform(-1, 1); return i % s.n <= i / s.n ? x : 0.0; });
    }
"#
        }
        "upper-trig-matmul" => {
            r#"    for (const char* name : {"input_a", "input_b"}) {
        Random r = random(name);
        a(name).each([&](long long i) { double x = r.uniform(-1, 1); return i % s.n >= i / s.n ? x : 0.0; });
    }
"#
        }
        "symmetric-matmul" => {
            r#"    for (const char* name : {"input_a", "input_b"}) {
        Random seed = random(name);
        a(name).each([&](long long i) {
            long long low = least(i / s.n, i % s.n), high = most(i / s.n, i % s.n);
            Random r = {seed.state ^ (uint64_t)(low * s.n + high)};
            return r.uniform(-1, 1);
        });
    }
"#
        }
        "matrix-power" => {
            r#"    double bound = std::sqrt(3.0 / (double)s.size);
    a("input_matrix").uniform(random("input_matrix"), -bound, bound);
"#
        }
        "merge-sorted" => {
            r#"    for (const char* name : {"a", "b"}) {
        Random r = random(name);
        std::vector<long long> values(a(name).count());
        for (long long& value : values) value = r.integer(-1000, 1000);
        std::sort(values.begin(), values.end());
        a(name).each([&](long long i) { return (double)values[(size_t)i]; });
    }
"#
        }
        "all-pairs-shortest-path" | "shortest-path" => {
            r#"    Random r = random("adj_matrix");
    a("adj_matrix").each([&](long long i) {
        long long row = i / s.n, column = i % s.n;
        if (row == column) return 0.0;
        if (column == (row + 1) % s.n) return r.uniform(1, 2);
        return r.integer(0, s.n) < 8 ? r.uniform(0.1, 1) : 0.0;
    });
"#
        }
        "min-spanning-tree" => {
            r#"    Random seed = random("A");
    a("A").each([&](long long i) {
        long long low = least(i / s.n, i % s.n), high = most(i / s.n, i % s.n);
        Random r = {seed.state ^ (uint64_t)(low * s.n + high)};
        if (low == high) return 0.0;
        if (high == low + 1) return r.uniform(1, 2);
        return r.integer(0, s.n) < 16 ? r.uniform(0.1, 1) : 0.0;
    });
"#
        }
        "bfs" => {
            r#"    Random r = random("edges");
    std::vector<long long> from((size_t)s.e);
    for (long long& vertex : from) vertex = r.integer(0, s.n - 1);
    std::sort(from.begin(), from.end());
    a("row_offsets").each([&](long long i) {
        return (double)(std::lower_bound(from.begin(), from.end(), i) - from.begin());
    });
    a("columns").integers(random("columns"), 0, s.n - 1);
"#
        }
        "spmv" => {
            r#"    Random r = random("places");
    std::vector<long long> rows((size_t)s.nnz);
    for (long long& row : rows) row = r.integer(0, s.rows - 1);
    std::sort(rows.begin(), rows.end());
    a("row_offsets").each([&](long long i) {
        return (double)(std::lower_bound(rows.begin(), rows.end(), i) - rows.begin());
    });
    a("columns").integers(random("columns"), 0, s.width - 1);
"#
        }
        "rope" => {
            r#"    long long half = s.E / 2;
    auto angle = [&](long long i) { return (double)(i / half) * std::pow(10000.0, -(double)(i % half) / (double)half); };
    a("cos").each([&](long long i) { return std::cos(angle(i)); });
    a("sin").each([&](long long i) { return std::sin(angle(i)); });
"#
        }
        "mxfp8-dequantize" => {
            r#"    Random r = random("q");
    a("q").each([&](long long) { return (double)(r.integer(0, 126) | r.integer(0, 1) << 7); });
"#
        }
        "mxfp8-gemm" => {
            r#"    for (const char* name : {"q_a", "q_b"}) {
        Random r = random(name);
        a(name).each([&](long long) { return (double)(r.integer(0, 126) | r.integer(0, 1) << 7); });
    }
"#
        }
        "cholesky" => {
            r#"    Random seed = random("A");
    a("A").each([&](long long i) {
        long long low = least(i / s.n, i % s.n), high = most(i / s.n, i % s.n);
        Random r = {seed.state ^ (uint64_t)(low * s.n + high)};
        return low == high ? (double)s.n * r.uniform(0.75, 1.25) : r.uniform(-1, 1);
    });
"#
        }
        "k-means-assign" => {
            r#"    Random c = random("centroids"), p = random("points");
    a("centroids").each([&](long long i) { return i % s.d ? c.uniform(-1, 1) : (double)(i / s.d); });
    long long home = 0;
    Argument& centroids = a("centroids");
    a("points").each([&](long long i) {
        if (i % s.d == 0) home = p.integer(0, s.k - 1);
        size_t at = (size_t)(home * s.d + i % s.d);
        return (double)get(centroids.bytes, at, centroids.type) + p.uniform(-0.25, 0.25) / (double)s.d;
    });
"#
        }
        _ => return None,
    })
}
