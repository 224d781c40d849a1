//! Translations of every operation: `ptxas` accepts them, and a GPU, where there is one, computes what the evaluator of the form
//! computes.

mod cases;
mod gpu;
mod ptxas;
mod pure;
mod wave;

/// Every case.
fn all() -> Vec<cases::Case> {
    let mut all = pure::cases();
    all.extend(wave::cases());
    all
}

/// Without a GPU only the text can be looked at.
#[test]
fn a_value_that_both_lanes_of_a_thread_share_is_still_fetched_from_other_threads() {
    let name = "values that both lanes of a thread share";
    let case = all().into_iter().find(|case| case.name == name).expect("the case");
    let options = ptxas::options(&case, ptx::Mode::Pair);
    let text = ptx::translate(&case.function, &ptx::Target::default(), &options).expect("a translation").text;
    // Three shuffles of lane values to two lanes each, one of which is of values that differ, and at least one for each of two
    // pushes, three reads and two moves.
    assert!(text.matches("shfl.sync").count() >= 2 + 2 + 4 + 2 + 3 + 2, "{text}");
}
