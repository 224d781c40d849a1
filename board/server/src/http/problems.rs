//! Routes for problems: the list, and the details of one.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use board_contract::{
    CasePlace, CaseSet, CustomField, CustomForm, ErrorBody, ParameterDirection, ProblemCase, ProblemDetail,
    ProblemParameter, ProblemSummary, ProblemTolerance, Problems, Starter, route,
};
use board_problems::{Direction, Dtype, Place, Problem, Set, Shape};
use serde::Deserialize;

use super::{Query, Visitor};
use crate::app::App;
use crate::error::Refusal;
use crate::{example, statement};

#[derive(Debug, Deserialize, utoipa::IntoParams)]
pub struct ProblemsQuery {
    /// Substring of a title, slug or tag.
    search: Option<String>,
    /// easy, medium or hard.
    difficulty: Option<String>,
    tag: Option<String>,
}

/// Lists all problems.
#[utoipa::path(get, path = route::PROBLEMS, params(ProblemsQuery), tag = "problems", responses((status = 200, body = Problems)))]
pub async fn list(
    State(app): State<Arc<App>>,
    Visitor(user): Visitor,
    Query(query): Query<ProblemsQuery>,
) -> Result<Json<Problems>, Refusal> {
    let user = user.map(|user| user.id).unwrap_or_default();
    let wanted = |text: &Option<String>| text.as_deref().unwrap_or_default().trim().to_lowercase();
    let (search, difficulty, tag) = (wanted(&query.search), wanted(&query.difficulty), wanted(&query.tag));
    let matches = |problem: &Problem| {
        let found = search.is_empty()
            || problem.slug.contains(&search)
            || problem.title.to_lowercase().contains(&search)
            || problem.tags.iter().any(|tag| tag.to_lowercase().contains(&search));
        found
            && (difficulty.is_empty() || problem.difficulty.name() == difficulty)
            && (tag.is_empty() || problem.tags.iter().any(|own| own.to_lowercase() == tag))
    };
    let counts = app.store.problem_counts(&user).await?;
    let counts: BTreeMap<&str, _> = counts.iter().map(|count| (count.problem.as_str(), count)).collect();
    let problems = board_problems::all()
        .iter()
        .filter(|problem| matches(problem))
        .map(|problem| {
            let count = counts.get(problem.slug.as_str());
            let mut summary = summary(problem);
            summary.solved = count.is_some_and(|count| count.solved);
            summary.submissions = count.map_or(0, |count| count.submissions);
            summary.accepted = count.map_or(0, |count| count.accepted);
            summary
        })
        .collect();
    Ok(Json(Problems { problems }))
}

fn summary(problem: &Problem) -> ProblemSummary {
    ProblemSummary {
        slug: problem.slug.clone(),
        title: problem.title.clone(),
        difficulty: problem.difficulty.name().to_owned(),
        tags: problem.tags.clone(),
        dtypes: problem.dtypes.iter().map(|dtype| dtype.name().to_owned()).collect(),
        gpus: problem.devices,
        solved: false,
        submissions: 0,
        accepted: 0,
    }
}

/// Shows one problem.
#[utoipa::path(get, path = route::PROBLEM, params(("slug" = String, Path)), tag = "problems",
    responses((status = 200, body = ProblemDetail), (status = 404, body = ErrorBody)))]
pub async fn detail(
    State(app): State<Arc<App>>,
    Visitor(user): Visitor,
    Path(slug): Path<String>,
) -> Result<Json<ProblemDetail>, Refusal> {
    let problem = board_problems::find(&slug)
        .ok_or_else(|| Refusal::not_found(format!("there is no problem \"{slug}\"")))?;
    let user = user.map(|user| user.id).unwrap_or_default();
    let counts = app.store.problem_counts(&user).await?;
    let mut detail = describe(problem);
    if let Some(count) = counts.iter().find(|count| count.problem == problem.slug) {
        detail.summary.solved = count.solved;
        detail.summary.submissions = count.submissions;
        detail.summary.accepted = count.accepted;
    }
    Ok(Json(detail))
}

fn describe(problem: &Problem) -> ProblemDetail {
    let first = problem.dtypes.first().copied().unwrap_or(Dtype::Float32);
    let parameters = problem.parameters.iter().map(|parameter| ProblemParameter {
        name: parameter.name.clone(),
        direction: match parameter.direction {
            Direction::In => ParameterDirection::In,
            Direction::Out => ParameterDirection::Out,
            Direction::InOut => ParameterDirection::InOut,
            Direction::Scalar => ParameterDirection::Scalar,
        },
        c_type: parameter.element.c_name(first).to_owned(),
        shape: parameter.shape.iter().map(|extent| extent.text().to_owned()).collect(),
        gpu: parameter.device,
    });
    let starters = problem.dtypes.iter().map(|dtype| {
        let starter = |shape| match problem.permits(shape) {
            true => problem.starter(*dtype, shape),
            false => String::new(),
        };
        let starter = Starter { kernel: starter(Shape::Kernel), host: starter(Shape::Host) };
        (dtype.name().to_owned(), starter)
    });
    let cases = problem.cases.iter().map(|case| ProblemCase {
        name: case.name.clone(),
        sizes: case.sizes.iter().map(|(name, size)| (name.clone(), *size)).collect(),
        values: case.values.clone(),
        set: match case.set {
            Set::Sample => CaseSet::Sample,
            Set::Check => CaseSet::Check,
            Set::Bench => CaseSet::Bench,
        },
        place: case.place.map(|place| match place {
            Place::Real => CasePlace::Real,
            Place::Emulated => CasePlace::Emulated,
        }),
    });
    let tolerance = problem.dtypes.iter().map(|dtype| {
        let tolerance = problem.tolerance(*dtype);
        (dtype.name().to_owned(), ProblemTolerance { rtol: tolerance.rtol, atol: tolerance.atol })
    });
    ProblemDetail {
        summary: summary(problem),
        statement_html: statement::html(&problem.statement),
        parameters: parameters.collect(),
        signature: problem.signature(first, problem.shape()),
        starters: starters.collect(),
        cases: cases.collect(),
        exact: problem.exact,
        tolerance: tolerance.collect(),
        flops_formula: problem.flops.as_ref().map(|formula| formula.text().to_owned()),
        bytes_formula: problem.bytes.as_ref().map(|formula| formula.text().to_owned()),
        example: example::of(problem),
        custom: form(problem),
    }
}

/// Returns what a user can choose for the endpoint `custom`, starting from the sample.
fn form(problem: &Problem) -> CustomForm {
    let sample = problem.cases(Set::Sample, Place::Emulated).next();
    let made = problem.made_inputs();
    let is_input = |direction| matches!(direction, Direction::In | Direction::InOut);
    let inputs = problem.parameters.iter().filter(|parameter| is_input(parameter.direction));
    CustomForm {
        sizes: sample.map(|case| problem.free_sizes(case)).unwrap_or_default(),
        values: sample.map(|case| case.values.clone()).unwrap_or_default(),
        inputs: inputs
            .map(|parameter| CustomField {
                name: parameter.name.clone(),
                shape: parameter.shape.iter().map(|extent| extent.text().to_owned()).collect(),
                fixed: made.contains(&parameter.name),
            })
            .collect(),
        most_elements: board_problems::MOST_CUSTOM_ELEMENTS,
    }
}
