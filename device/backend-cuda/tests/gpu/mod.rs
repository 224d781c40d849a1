//! Opens the GPU of this machine for a test.

mod kernels;

use std::io::Write;
use std::sync::Arc;

use backend::Device;
use backend_cuda::{Cuda, Lifter, Options, Translator};
use hip_api::types::{hipErrorNoDevice, hipErrorSharedObjectInitFailed};

use self::kernels::HandWritten;

/// Set to run the suite's kernels as the translator makes them, instead of hand-written ones.
const TRANSLATED: &str = "REMORA_TEST_CUDA_TRANSLATED";

/// Opens the GPU; says why the test is skipped if there is none.
pub fn open(test: &str) -> Option<Arc<dyn Device>> {
    let translator: Arc<dyn Translator> =
        if std::env::var_os(TRANSLATED).is_some() { Arc::new(Lifter) } else { Arc::new(HandWritten) };
    let options = Options {
        library: None,
        model: "mi300x".to_owned(),
        arena: None,
        seat: None,
        cache: None,
        translator,
    };
    match Cuda::open(options) {
        Ok(device) => Some(Arc::new(device)),
        Err(error) if [hipErrorSharedObjectInitFailed, hipErrorNoDevice].contains(&error.code) => {
            let _ = writeln!(std::io::stderr(), "skipped: {test}: {error}");
            None
        }
        Err(error) => panic!("the GPU cannot be opened: {error}"),
    }
}
