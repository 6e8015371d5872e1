//! scratch
#![forbid(unsafe_code)]
#[path = "model/checker.rs"]
mod checker;
#[path = "model/rules.rs"]
mod rules;
#[path = "model/state.rs"]
mod state;
#[path = "model/steps.rs"]
mod steps;
use rules::{Rule, Rules, Scope};
use steps::Model;
#[test]
fn sizes() {
    let p = Scope::PLAIN;
    for scope in [
        Scope { globals: 1, ..p },
        Scope { roots: 1, ..p },
        Scope { roots: 1, globals: 1, ..p },
        Scope { globals: 1, weak: true, ..p },
        Scope { globals: 1, native: true, births: true, ..p },
        Scope { roots: 1, globals: 1, runs: true, ..p },
        Scope { roots: 2, duplicates: true, ..p },
        Scope { globals: 2, clones: true, ..p },
        Scope { roots: 1, globals: 1, liveness: true, ..p },
        Scope { objects: 3, mutators: 1, roots: 1, ..p },
        Scope { objects: 3, globals: 1, ..p },
    ] {
        let t = std::time::Instant::now();
        let o = checker::search(&Model { scope, rules: Rules::ALL, strict: true }, 3_000_000);
        println!("{scope}: {} states {} steps depth {} {:?}", o.states, o.steps, o.depth, t.elapsed());
        if let Some(t) = o.counter_example {
            println!("{t}");
        }
    }
    let _ = Rules::without(Rule::BlackInMark);
}
