//! The problem set embedded in the binary, parsed once.

use crate::definition::{self, DefinitionError};
use crate::problem::Problem;
use include_dir::{Dir, include_dir};
use std::sync::LazyLock;

static FOLDER: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/set");

/// The panic cannot occur in a tested binary, because a test parses the same set.
static PROBLEMS: LazyLock<Vec<Problem>> = LazyLock::new(|| read().unwrap_or_else(|error| panic!("{error}")));

/// Returns all problems, by difficulty and then by title.
pub fn all() -> &'static [Problem] {
    &PROBLEMS
}

/// Finds a problem by slug or alias.
pub fn find(slug: &str) -> Option<&'static Problem> {
    let named =
        |problem: &&Problem| problem.slug == slug || problem.aliases.iter().any(|alias| alias == slug);
    all().iter().find(named)
}

fn read() -> Result<Vec<Problem>, DefinitionError> {
    let text = |folder: &Dir<'_>, name: &str| {
        let file = folder.get_file(folder.path().join(name));
        file.and_then(include_dir::File::contents_utf8).unwrap_or_default().to_owned()
    };
    let mut problems = Vec::new();
    for folder in FOLDER.dirs() {
        let slug = folder.path().to_string_lossy().into_owned();
        problems.push(definition::read(&slug, &text(folder, "problem.toml"), &text(folder, "statement.md"))?);
    }
    problems.sort_by(|a, b| (a.difficulty, &a.title).cmp(&(b.difficulty, &b.title)));
    Ok(problems)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference;
    use std::collections::BTreeSet;

    #[test]
    fn every_problem_of_the_set_can_be_read() {
        let problems = read().unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(problems.len(), FOLDER.dirs().count());
    }

    #[test]
    fn every_reference_has_its_problem() {
        for slug in reference::slugs() {
            assert!(find(slug).is_some(), "{slug}");
        }
    }

    /// Reads the solutions in a folder, by problem. Only tests use them; no binary contains them.
    fn solutions(folder: &str) -> Vec<(String, String)> {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
        let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let read = |path: std::path::PathBuf| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name.split('.').next().unwrap().to_owned(), std::fs::read_to_string(path).unwrap())
        };
        files.map(read).collect()
    }

    #[test]
    fn every_problem_has_a_right_solution_and_a_wrong_one_and_both_can_be_launched() {
        for folder in ["solutions", "wrong"] {
            let solutions = solutions(folder);
            for problem in all() {
                assert!(
                    solutions.iter().any(|(slug, _)| *slug == problem.slug),
                    "{folder}: {}",
                    problem.slug
                );
            }
            for (slug, source) in &solutions {
                let problem = find(slug).unwrap_or_else(|| panic!("{folder}: {slug} is not a problem"));
                assert!(crate::Shape::of(source).is_some(), "{folder}: {slug}");
                for case in &problem.cases {
                    problem
                        .launch_of(case, source)
                        .unwrap_or_else(|error| panic!("{folder}: {slug}: {error}"));
                }
            }
        }
    }

    #[test]
    fn names_and_other_names_are_all_different() {
        let mut names = BTreeSet::new();
        for problem in all() {
            assert!(names.insert(&problem.slug), "{}", problem.slug);
            for alias in &problem.aliases {
                assert!(names.insert(alias), "{alias}");
            }
        }
        assert_eq!(find("matmul").unwrap().slug, "matrix-multiplication");
        assert!(find("no-such-problem").is_none());
    }
}
