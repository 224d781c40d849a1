//! Name expressions: maps names in a program's source to the symbols they are compiled to.
//!
//! Each name expression gets a device variable that is initialised with the address of the named entity. That instantiates
//! templates, and the variable's relocation leads to the symbol.

use std::fmt::Write;
use std::sync::Arc;

use code_object::{CodeObject, RelocationTarget, SymbolKind};

const PREFIX: &str = "__remora_name_";

/// Returns the source text of the variables, to be appended to the program.
pub(crate) fn probes(expressions: &[String]) -> String {
    let mut text = String::new();
    for (index, expression) in expressions.iter().enumerate() {
        // One line each, so that a compiler error identifies the expression by its line number.
        let expression = expression.replace(['\n', '\r'], " ");
        let _ = write!(
            text,
            "\n#line {} \"name expression\"\nextern \"C\" __device__ const void* {PREFIX}{index} = (const void*)({expression});\n",
            index + 1
        );
    }
    text
}

/// Returns the symbol of each expression from the compiled code object; `Err` names the first one without a symbol.
pub(crate) fn lowered(code: &[u8], expressions: &[String]) -> Result<Vec<String>, String> {
    if expressions.is_empty() {
        return Ok(Vec::new());
    }
    let object = CodeObject::parse(Arc::from(code)).map_err(|error| error.to_string())?;
    expressions
        .iter()
        .enumerate()
        .map(|(index, expression)| {
            resolve(&object, index)
                .ok_or_else(|| format!("the name expression `{expression}` does not name a symbol"))
        })
        .collect()
}

fn resolve(object: &CodeObject, index: usize) -> Option<String> {
    let probe = object.symbol(&format!("{PREFIX}{index}"))?.value;
    let relocation = object.relocations().iter().find(|it| it.address == probe)?;
    if let RelocationTarget::Undefined(symbol) = &relocation.target {
        return Some(symbol.clone());
    }
    let (address, _) = relocation.value(0)?;
    let symbols = || object.symbols().iter().filter(|symbol| symbol.value == address);
    let function = symbols().find(|symbol| symbol.kind == SymbolKind::Function);
    function.or_else(|| symbols().find(|symbol| !symbol.name.starts_with(PREFIX))).map(|it| it.name.clone())
}
