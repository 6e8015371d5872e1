//! The fuzzer's corpus, run as programs.

use crate::decode::decode;
use crate::run::run;
use std::path::Path;

#[test]
fn the_corpus_of_the_fuzzer() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus/api");
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut programs = 0;
    for entry in entries {
        let path = entry.expect("the folder can be listed").path();
        let program = decode(&std::fs::read(&path).expect("a file of the corpus can be read"));
        if let Err(found) = run(&program, None) {
            panic!("{}: {found}\n{program}", path.display());
        }
        programs += 1;
    }
    assert!(programs > 0, "the corpus is empty");
}

#[test]
fn bytes_mean_programs() {
    let program = decode(&[0x15, 1, 2, 0, 40, 3, 1, 7, 9]);
    assert_eq!((program.mutators, program.glue, program.acts.len()), (2, true, 1));
    assert_eq!(program.steps.len(), 2, "{program}");
    assert!(decode(&[]).steps.is_empty());
    assert_eq!(decode(&[255; 10_000]).steps.len(), 300);
}
