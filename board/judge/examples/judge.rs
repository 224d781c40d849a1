//! Judges the job on standard input with the library alone, without the `remora` command. Arguments: folder of the client library, folder
//! of the toolchain, cache folder.

use std::io::Read;
use std::path::PathBuf;

use board_judge::{IsolationRange, Job, Toolchain, Tools};

fn main() {
    let arguments: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    if let [mode, library] = &arguments[..]
        && mode.as_os_str() == "--runner"
    {
        // SAFETY: the judge below passed its socket as descriptor 3, and nothing in this process has used it.
        unsafe { board_judge::runner::serve(library) }.expect("a runner");
        return;
    }
    let [libraries, toolchain, cache] = &arguments[..] else {
        panic!("usage: judge LIBRARIES TOOLCHAIN CACHE")
    };
    let tools = Tools {
        toolchain: Toolchain::find(Some(toolchain)).expect("a compiler"),
        libraries: libraries.clone(),
        cache: cache.clone(),
        runner: vec![std::env::current_exe().expect("a name").into(), "--runner".into()],
        // Observed runs need the `remora` command.
        worker: Vec::new(),
        isolation: IsolationRange::default(),
        show_times: None,
    };
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).expect("a job");
    let job: Job = serde_json::from_str(&text).expect("a job");
    board_judge::run(&job, &tools, &mut || None, &mut |event| {
        println!("{}", serde_json::to_string(&event).expect("JSON"));
    });
}
