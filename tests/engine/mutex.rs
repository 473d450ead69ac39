//! One AutomationTool for an engine directory.

use super::{Bench, Run, copy, finish, fixtures, wait_until};

/// Engines that no other test runs.
fn own_engine(version: &str) -> Bench {
    let mut bench = Bench::plain(version);
    copy(&fixtures().join("engines"), &bench.place.path().join("engines"));
    bench.engine = bench.place.path().join("engines").join(version);
    bench.mischief("[Cook]\nTouch=Saved/cooking\nWaitFor=Saved/go\n");
    bench
}

/// A second project for the same engine.
fn neighbour(bench: &Bench) -> Bench {
    Bench { engine: bench.engine.clone(), ..Bench::plain("UE_5.4") }
}

#[test]
fn a_second_run_in_the_same_engine_fails_at_once() {
    let bench = own_engine("UE_5.4");
    let mut command = bench.command(&[]);
    let first = command.env_remove("uebp_UATMutexNoWait").stdout(std::process::Stdio::piped()).spawn().unwrap();
    wait_until(|| bench.path("Saved/cooking").exists());

    let other = neighbour(&bench);
    let mut command = other.command(&[]);
    command.env_remove("uebp_UATMutexNoWait");
    let refused = finish(command);
    refused.ended(1).said(&["A conflicting instance of AutomationTool is already running. Curent location: ", "BUILD FAILED"]);
    assert!(!other.archived("").exists());

    // Told not to care, it runs beside.
    other.run(&[]).ended(0);

    let mut command = other.command(&["-WaitForUATMutex"]);
    let waiting = command.env_remove("uebp_UATMutexNoWait").stdout(std::process::Stdio::piped()).spawn().unwrap();
    bench.write("Saved/go", "");
    Run::from(first.wait_with_output().unwrap()).ended(0);
    Run::from(waiting.wait_with_output().unwrap()).ended(0);
}

#[test]
fn daemons_of_a_run_do_not_hold_its_mutex() {
    let bench = own_engine("UE_4.27");
    bench.mischief("[Build]\nDaemons=1\n");
    let run = || {
        let mut command = bench.command(&[]);
        command.env_remove("uebp_UATMutexNoWait");
        finish(command)
    };
    run().ended(0);
    let first = super::mischief::Daemons::of(&bench, 1);
    run().ended(0);
    let second = super::mischief::Daemons::of(&bench, 1);
    assert!(first.alive(0) && second.alive(0));
}
