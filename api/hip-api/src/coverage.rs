//! Generator of the coverage page `docs/hip-coverage.md`, which lists the supported functions.
//!
//! Defines the wording of the page; all facts come from the table and from the reasons in `refusal.rs`.

use std::fmt::Write as _;

use crate::meta::{Class, EXCEPTIONS, FAMILIES, Soname, TABLE};
use crate::refusal;

/// Returns the coverage page in Markdown.
pub fn coverage_page() -> String {
    let mut page = String::from(
        "<!-- Written by `cargo xtask codegen` from api/hip-api/src/table.rs. Do not edit. -->\n\n# HIP coverage\n\n",
    );
    let implemented = TABLE.iter().filter(|row| row.class != Class::Absent).count();
    write(
        &mut page,
        format_args!(
            "Every function that AMD's libamdhip64 exports is exported here too, with the same symbol version. \
         {implemented} of {} are implemented; the others return `hipErrorNotSupported` and are named once on stderr, with the reason given below.\n\n",
            TABLE.len(),
        ),
    );

    page += "| Class | Functions | Meaning |\n|---|---:|---|\n";
    for class in Class::ALL {
        let count = TABLE.iter().filter(|row| row.class == class).count();
        write(&mut page, format_args!("| {class} | {count} | {} |\n", class.meaning()));
    }

    page += "\n| Library | Exports | Implemented |\n|---|---:|---:|\n";
    for soname in Soname::ALL {
        let rows = || TABLE.iter().filter(|row| row.exported_by(soname));
        let implemented = rows().filter(|row| row.class != Class::Absent).count();
        write(&mut page, format_args!("| {} | {} | {implemented} |\n", soname.library(), rows().count()));
    }

    page += "\n| Family | Implemented | Functions |\n|---|---:|---:|\n";
    for family in FAMILIES {
        let rows = || TABLE.iter().filter(|row| row.family == family.name);
        let implemented = rows().filter(|row| row.class != Class::Absent).count();
        let name = family.name;
        write(&mut page, format_args!("| [{name}](#{name}) | {implemented} | {} |\n", rows().count()));
    }

    for family in FAMILIES {
        write(&mut page, format_args!("\n## {}\n\n{}.\n\n", family.name, family.title));
        page += "| Function | Class | Number | Version | Libraries |\n|---|---|---|---|---|\n";
        for row in TABLE.iter().filter(|row| row.family == family.name) {
            let sonames: Vec<String> = row.sonames.iter().map(|major| format!(".{major}")).collect();
            write(
                &mut page,
                format_args!(
                    "| `{}` | {} | {:#06x} | {} | {} |\n",
                    row.name,
                    row.class,
                    row.number,
                    row.node,
                    sonames.join(" "),
                ),
            );
        }
        write_reasons(&mut page, family.name);
    }

    page += "\n## Left out\n\nFunctions of the vendor's header or dispatch table without a row.\n\n";
    page += "| Function | Reason |\n|---|---|\n";
    for exception in EXCEPTIONS {
        write(&mut page, format_args!("| `{}` | {} |\n", exception.name, exception.reason));
    }
    page
}

/// Writes the reasons why rows of a family are not supported, one line each.
fn write_reasons(page: &mut String, family: &str) {
    let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
    for row in TABLE.iter().filter(|row| row.family == family) {
        let Some(reason) = refusal::reason(row) else { continue };
        let name = format!("`{}`", row.name);
        match reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, names)) => names.push(name),
            None => reasons.push((reason, vec![name])),
        }
    }
    if reasons.is_empty() {
        return;
    }
    *page += "\nRefused:\n\n";
    for (reason, names) in reasons {
        write(page, format_args!("* {reason}: {}.\n", names.join(", ")));
    }
}

fn write(page: &mut String, text: std::fmt::Arguments<'_>) {
    page.write_fmt(text).expect("writing to a string does not fail");
}
