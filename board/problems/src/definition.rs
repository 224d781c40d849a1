//! Parser for `problem.toml`. Every mistake is an error that names the problem and the location; there are no fallbacks.

use crate::case::{Case, Place, Set};
use crate::compare::Tolerance;
use crate::dtype::Dtype;
use crate::expression::{Expression, ExpressionError, Sizes};
use crate::launch::{Formula, LaunchError};
use crate::parameter::{Direction, Element, Fill, Parameter};
use crate::problem::{Difficulty, Problem};
use crate::reference;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use thiserror::Error;

/// Most GPUs of a problem.
const MOST_DEVICES: u32 = 8;

/// Error in the definition of a problem.
#[derive(Debug, Error)]
#[error("problem {slug}: {mistake}")]
pub struct DefinitionError {
    /// Slug of the problem.
    pub slug: String,
    /// What is wrong.
    #[source]
    pub mistake: Mistake,
}

#[derive(Debug, Error)]
pub enum Mistake {
    #[error("problem.toml: {0}")]
    Toml(#[from] toml::de::Error),
    #[error("no reference of this name in src/reference")]
    Reference,
    #[error("statement.md is missing or empty")]
    Statement,
    #[error("{place}: {source}")]
    Expression { place: String, source: ExpressionError },
    #[error("case {case}: the launch is invalid: {source}")]
    Launch { case: String, source: LaunchError },
    #[error("parameter {parameter}: `{element}` is not a type")]
    Element { parameter: String, element: String },
    #[error("parameter {parameter}: `{fill}` is not a valid fill")]
    Fill { parameter: String, fill: String },
    #[error("parameter {parameter}: {what}")]
    Parameter { parameter: String, what: &'static str },
    #[error("case {case}: `{name}` is neither a number nor a name")]
    Value { case: String, name: String },
    #[error("case {case}: parameter {parameter} has no value")]
    Scalar { case: String, parameter: String },
    #[error("case {case}: an extent of {parameter} is {extent}")]
    Extent { case: String, parameter: String, extent: i64 },
    #[error("the tolerance for {dtype} is not two positive numbers below one")]
    Tolerance { dtype: Dtype },
    #[error("{0}")]
    Whole(&'static str),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    title: String,
    difficulty: Difficulty,
    tags: Vec<String>,
    #[serde(default)]
    aliases: Vec<String>,
    dtypes: Vec<Dtype>,
    #[serde(default = "one")]
    devices: u32,
    #[serde(default)]
    exact: bool,
    flops: Option<String>,
    bytes: Option<String>,
    scale: Option<String>,
    #[serde(default)]
    tolerance: BTreeMap<Dtype, [f64; 2]>,
    parameters: Vec<TableParameter>,
    /// Sizes derived from those of a case.
    #[serde(default)]
    derived: BTreeMap<String, String>,
    launch: Option<TableLaunch>,
    cases: TableCases,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TableParameter {
    name: String,
    direction: Direction,
    element: Option<String>,
    #[serde(default)]
    shape: Vec<String>,
    fill: Option<String>,
    value: Option<String>,
    #[serde(default)]
    device: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TableLaunch {
    grid: Vec<String>,
    block: Vec<String>,
    lds: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct TableCases {
    sample: toml::Table,
    /// Cases for all devices.
    check: Vec<toml::Table>,
    /// Cases for real GPUs.
    check_real: Vec<toml::Table>,
    bench_emulated: Vec<toml::Table>,
    bench_real: Vec<toml::Table>,
}

/// Parses a problem and evaluates every formula with every case, so that nothing can fail later.
pub(crate) fn read(slug: &str, table: &str, statement: &str) -> Result<Problem, DefinitionError> {
    problem(slug, table, statement).map_err(|mistake| DefinitionError { slug: slug.to_owned(), mistake })
}

fn problem(slug: &str, table: &str, statement: &str) -> Result<Problem, Mistake> {
    let table: Table = toml::from_str(table)?;
    if statement.trim().is_empty() {
        return Err(Mistake::Statement);
    }
    let row = reference::find(slug).ok_or(Mistake::Reference)?;
    let derived: Vec<(String, Expression)> = table
        .derived
        .iter()
        .map(|(name, text)| Ok((name.clone(), expression(text, name)?)))
        .collect::<Result<_, Mistake>>()?;
    let problem = Problem {
        slug: slug.to_owned(),
        title: table.title,
        difficulty: table.difficulty,
        tags: table.tags,
        aliases: table.aliases,
        statement: statement.to_owned(),
        parameters: table.parameters.into_iter().map(parameter).collect::<Result<_, _>>()?,
        dtypes: table.dtypes,
        cases: cases(table.cases, &derived)?,
        derived,
        exact: table.exact,
        devices: table.devices,
        launch: launch(table.launch, table.devices)?,
        flops: optional(table.flops.as_deref(), "flops")?,
        bytes: optional(table.bytes.as_deref(), "bytes")?,
        scale: optional(table.scale.as_deref(), "scale")?,
        tolerances: tolerances(table.tolerance)?,
        row,
    };
    try_whole(&problem)?;
    for case in &problem.cases {
        try_case(&problem, case)?;
    }
    Ok(problem)
}

/// The default launch of the kernel shape, which problems for several GPUs do not have.
fn launch(table: Option<TableLaunch>, devices: u32) -> Result<Formula, Mistake> {
    match table {
        Some(launch) if devices == 1 => Ok(Formula {
            grid: expressions(&launch.grid, "grid")?,
            block: expressions(&launch.block, "block")?,
            lds: optional(launch.lds.as_deref(), "lds")?,
        }),
        None if devices > 1 => Ok(Formula {
            grid: vec![expression("1", "grid")?],
            block: vec![expression("1", "block")?],
            lds: None,
        }),
        _ => Err(Mistake::Whole("it must have a launch if it is for one GPU, and none if it is for several")),
    }
}

fn one() -> u32 {
    1
}

fn expression(text: &str, place: &str) -> Result<Expression, Mistake> {
    Expression::parse(text).map_err(|source| Mistake::Expression { place: place.to_owned(), source })
}

fn expressions(texts: &[String], place: &str) -> Result<Vec<Expression>, Mistake> {
    texts.iter().map(|text| expression(text, place)).collect()
}

fn optional(text: Option<&str>, place: &str) -> Result<Option<Expression>, Mistake> {
    text.map(|text| expression(text, place)).transpose()
}

fn tolerances(table: BTreeMap<Dtype, [f64; 2]>) -> Result<BTreeMap<Dtype, Tolerance>, Mistake> {
    let tolerance = |(dtype, [rtol, atol]): (Dtype, [f64; 2])| {
        let fine = [rtol, atol].iter().all(|part| (0.0..1.0).contains(part)) && rtol + atol > 0.0;
        if fine { Ok((dtype, Tolerance { rtol, atol })) } else { Err(Mistake::Tolerance { dtype }) }
    };
    table.into_iter().map(tolerance).collect()
}

fn parameter(table: TableParameter) -> Result<Parameter, Mistake> {
    let name = table.name;
    let scalar = table.direction == Direction::Scalar;
    let refuse = |what| Err(Mistake::Parameter { parameter: name.clone(), what });
    if !name.starts_with(|c: char| c.is_ascii_alphabetic())
        || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    {
        return refuse("its name is not a C identifier");
    }
    if scalar != table.shape.is_empty() {
        return refuse("a scalar must not have a shape; every other parameter must have one");
    }
    if table.fill.is_some() && matches!(table.direction, Direction::Out | Direction::Scalar) {
        return refuse("only inputs can have a fill");
    }
    if table.device > 0 && scalar {
        return refuse("a scalar is not in the memory of a GPU");
    }
    if table.value.is_some() && !scalar {
        return refuse("only scalars can have a value");
    }
    let element = table.element.unwrap_or_else(|| if scalar { "size" } else { "T" }.to_owned());
    let element = Element::from_name(&element)
        .ok_or_else(|| Mistake::Element { parameter: name.clone(), element: element.clone() })?;
    let fill = match &table.fill {
        None => Fill::Uniform { low: -1.0, high: 1.0 },
        Some(fill) => {
            Fill::parse(fill).ok_or_else(|| Mistake::Fill { parameter: name.clone(), fill: fill.clone() })?
        }
    };
    Ok(Parameter {
        shape: expressions(&table.shape, &name)?,
        value: optional(table.value.as_deref(), &name)?,
        direction: table.direction,
        device: table.device,
        element,
        fill,
        name,
    })
}

fn cases(table: TableCases, derived: &[(String, Expression)]) -> Result<Vec<Case>, Mistake> {
    let groups = [
        (Set::Sample, None, vec![table.sample]),
        (Set::Check, None, table.check),
        (Set::Check, Some(Place::Real), table.check_real),
        (Set::Bench, Some(Place::Emulated), table.bench_emulated),
        (Set::Bench, Some(Place::Real), table.bench_real),
    ];
    let mut cases = Vec::new();
    for (set, place, tables) in groups {
        for table in tables {
            cases.push(case(set, place, table, derived)?);
        }
    }
    Ok(cases)
}

fn case(
    set: Set,
    place: Option<Place>,
    table: toml::Table,
    derived: &[(String, Expression)],
) -> Result<Case, Mistake> {
    let mut sizes = Sizes::new();
    let mut values = BTreeMap::new();
    let mut name = None;
    let mut parts = Vec::new();
    for (key, value) in &table {
        match value {
            toml::Value::Integer(size) => {
                sizes.insert(key.clone(), *size);
                parts.push(format!("{key}={size}"));
            }
            toml::Value::Float(value) => {
                values.insert(key.clone(), *value);
                parts.push(format!("{key}={value}"));
            }
            toml::Value::String(text) if key == "name" => name = Some(text.clone()),
            _ => return Err(Mistake::Value { case: parts.join(", "), name: key.clone() }),
        }
    }
    let name = name.unwrap_or_else(|| parts.join(", "));
    derive(&name, &mut sizes, derived)?;
    Ok(Case { name, set, place, sizes, values })
}

/// Adds the derived sizes.
fn derive(name: &str, sizes: &mut Sizes, derived: &[(String, Expression)]) -> Result<(), Mistake> {
    let own = sizes.clone();
    for (key, formula) in derived {
        let place = || format!("case {name}: {key}");
        let size = formula.integer(&own).map_err(|source| Mistake::Expression { place: place(), source })?;
        sizes.insert(key.clone(), size);
    }
    Ok(())
}

/// Creates a case of a user's choice and evaluates every formula with it.
pub(crate) fn custom_case(
    problem: &Problem,
    mut sizes: Sizes,
    values: BTreeMap<String, f64>,
) -> Result<Case, Mistake> {
    let mut parts: Vec<String> = sizes.iter().map(|(name, size)| format!("{name}={size}")).collect();
    parts.extend(values.iter().map(|(name, value)| format!("{name}={value}")));
    let name = parts.join(", ");
    derive(&name, &mut sizes, &problem.derived)?;
    let case = Case { name, set: Set::Sample, place: None, sizes, values };
    try_case(problem, &case)?;
    Ok(case)
}

/// Checks the requirements on a problem that do not depend on the case.
fn try_whole(problem: &Problem) -> Result<(), Mistake> {
    let require = |holds: bool, what| if holds { Ok(()) } else { Err(Mistake::Whole(what)) };
    require(!problem.dtypes.is_empty(), "it has no dtypes")?;
    require(!problem.tags.is_empty(), "it has no tag")?;
    require(problem.outputs().next().is_some(), "it has no output")?;
    require((1..=MOST_DEVICES).contains(&problem.devices), "it is for no GPU, or for too many")?;
    let placed = problem.parameters.iter().all(|parameter| parameter.device < problem.devices);
    require(placed, "a parameter is on a GPU that it does not have")?;
    for (set, place, what) in [
        (Set::Check, Place::Emulated, "it has no case to check"),
        (Set::Bench, Place::Emulated, "it has no case to measure on a software GPU"),
        (Set::Bench, Place::Real, "it has no case to measure on a real GPU"),
    ] {
        require(problem.cases(set, place).next().is_some(), what)?;
    }
    let named =
        |case: &Case| -> Vec<String> { case.sizes.keys().chain(case.values.keys()).cloned().collect() };
    let first = problem.cases.first().map(named);
    require(problem.cases.iter().all(|case| Some(named(case)) == first), "its cases name different sizes")?;
    let names: BTreeSet<&str> = problem.parameters.iter().map(|parameter| parameter.name.as_str()).collect();
    require(names.len() == problem.parameters.len(), "two parameters have the same name")?;
    for place in [Place::Real, Place::Emulated] {
        let mut names = BTreeSet::new();
        let cases = problem.cases.iter().filter(|case| case.set != Set::Sample);
        for case in cases.filter(|case| case.place.is_none_or(|own| own == place)) {
            require(names.insert((case.set == Set::Check, &case.name)), "two cases have the same name")?;
        }
    }
    Ok(())
}

/// Evaluates every formula of a problem for a case once.
fn try_case(problem: &Problem, case: &Case) -> Result<(), Mistake> {
    let tried =
        |place: &str, source| Mistake::Expression { place: format!("case {}: {place}", case.name), source };
    for parameter in &problem.parameters {
        let mut elements: i64 = 1;
        for formula in &parameter.shape {
            let extent = formula.integer(&case.sizes).map_err(|source| tried(&parameter.name, source))?;
            elements = elements.saturating_mul(extent);
            if extent < 1 || elements > 1 << 32 {
                return Err(Mistake::Extent {
                    case: case.name.clone(),
                    parameter: parameter.name.clone(),
                    extent,
                });
            }
        }
        if let Fill::Integers { low, high } = &parameter.fill {
            let bound = |bound: &Expression| {
                bound.integer(&case.sizes).map_err(|source| tried(&parameter.name, source))
            };
            if bound(low)? > bound(high)? {
                return Err(Mistake::Parameter {
                    parameter: parameter.name.clone(),
                    what: "the upper bound of its fill is below the lower bound",
                });
            }
        }
        let known = case.sizes.contains_key(&parameter.name) || case.values.contains_key(&parameter.name);
        match &parameter.value {
            Some(value) => {
                value.integer(&case.sizes).map_err(|source| tried(&parameter.name, source))?;
            }
            None if parameter.direction == Direction::Scalar && !known => {
                return Err(Mistake::Scalar { case: case.name.clone(), parameter: parameter.name.clone() });
            }
            None => {}
        }
    }
    let mut sizes = case.sizes.clone();
    sizes.insert("T".to_owned(), 4);
    for (place, formula) in [("flops", &problem.flops), ("bytes", &problem.bytes), ("scale", &problem.scale)]
    {
        if let Some(formula) = formula {
            formula
                .real(if place == "bytes" { &sizes } else { &case.sizes })
                .map_err(|source| tried(place, source))?;
        }
    }
    let launch = problem.launch.launch(&case.sizes);
    launch.map_err(|source| Mistake::Launch { case: case.name.clone(), source })?;
    Ok(())
}
