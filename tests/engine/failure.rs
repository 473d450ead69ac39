//! Builds that fail by themselves: code, content, command line, engine.

use std::fs;
use std::os::unix::fs::symlink;

use super::{Bench, finish};

#[test]
fn a_compiler_error_ends_the_build_with_the_build_tools_code() {
    let bench = Bench::demo("UE_5.4");
    bench.write("Source/Kitchen/Private/Oven.cpp", "#include \"Oven.h\"\nint32 Broken()\n{\n\treturn Missing;\n}\n");
    let source = bench.path("Source/Kitchen/Private/Oven.cpp");
    let run = bench.run(&["-nocompileeditor"]);
    run.ended(6).said(&[
        "[2/6] Compile Oven.cpp",
        &format!("{}:4:", source.display()),
        "Result: Failed (OtherCompilationError)",
        "Took ",
        "UnrealBuildTool failed. See log for more details. (",
        "AutomationTool exiting with ExitCode=6 (6)",
        "BUILD FAILED",
    ]);
    assert_eq!(run.count("********** BUILD COMMAND COMPLETED") + run.count("********** COOK"), 0);
    assert!(fs::read_to_string(bench.log("UBT-Kitchen-Linux-Development.txt")).unwrap().contains(": error: "));

    let windows = bench.run(&["-nocompileeditor", "-platform=Win64"]);
    windows.ended(6).said(&[&format!("{}(4): error C2065: ", source.display())]);

    bench.write("Source/Kitchen/Private/Oven.cpp", "#include \"Nowhere.h\"\n");
    let windows = bench.run(&["-nocompileeditor", "-platform=Win64"]);
    windows.ended(6).said(&[&format!("{}(1): fatal error C1083: Cannot open include file: 'Nowhere.h'", source.display())]);
}

#[test]
fn an_unresolved_lfs_pointer_is_a_broken_asset() {
    let bench = Bench::plain("UE_5.4");
    let pointer = format!("version https://git-lfs.github.com/spec/v1\noid sha256:{}\nsize 32033\n", "a".repeat(64));
    bench.write("Content/T.uasset", &pointer);
    let run = bench.run(&[]);
    run.ended(25).said(&[
        "LogAssetRegistry: Error: Package is unloadable: ",
        "LogInit: Display: Warning/Error Summary (Unique only)",
        "LogInit: Display: LogAssetRegistry: Error: Package is unloadable: ",
        "LogInit: Display: Failure - 1 error(s), 0 warning(s)",
        "ERROR: Cook failed.",
        "AutomationTool exiting with ExitCode=25 (Error_UnknownCookFailure)",
        "BUILD FAILED",
    ]);
    bench.run(&["-IgnoreCookErrors"]).ended(0).said(&["Ignoring cook failure."]);
    bench.write("Content/T.uasset", "");
    bench.run(&[]).ended(25);
}

#[test]
fn an_editor_without_the_projects_modules_cannot_cook() {
    let bench = Bench::demo("UE_5.4");
    bench.run(&["-nocompileeditor"]).ended(25).said(&["LogInit: Warning: Incompatible or missing module: libUnrealEditor-Kitchen.so"]);
    bench.run(&[]).ended(0);
    bench.run(&["-nocompileeditor"]).ended(0);
}

#[test]
fn an_installed_engine_refuses_what_it_does_not_carry() {
    let bench = Bench::demo("UE_5.4");
    let refused = "Targets cannot be built in the Test configuration with this engine distribution.";
    bench.run(&["-clientconfig=Test", "-nocompileeditor"]).ended(6).said(&[refused]);
    let refused = "Server targets are not currently supported from this engine distribution.";
    bench.run(&["-server", "-noclient", "-nocompileeditor"]).ended(6).said(&[refused]);
    let source = Bench::plain("UE_4.27");
    source.run(&["-clientconfig=Test"]).ended(0);
}

#[test]
fn platforms_without_their_sdk_fail_as_with_the_real_engine() {
    let bench = Bench::plain("UE_5.4");
    for platform in ["Mac", "Android", "IOS"] {
        let refused = format!("Platform {platform} is not a valid platform to build. SDK validation failed:");
        bench.run(&[&format!("-platform={platform}")]).ended(6).said(&[&refused, "AutomationTool exiting with ExitCode=6 (6)"]);
    }
}

#[test]
fn a_machine_without_a_compiler_is_an_engine_without_a_toolchain() {
    let bench = Bench::plain("UE_5.4");
    let tools = tempfile::TempDir::new().unwrap();
    for entry in fs::read_dir("/usr/bin").unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name();
        if !name.to_string_lossy().contains("++") {
            symlink(entry.path(), tools.path().join(name)).unwrap();
        }
    }
    let mut command = bench.command(&[]);
    command.env("PATH", tools.path());
    finish(command).ended(6).said(&["Platform Linux is not a valid platform to build. SDK validation failed:", "  Sdk: not found.".trim()]);
}

#[test]
fn a_wrong_command_line_has_its_own_codes() {
    let bench = Bench::plain("UE_5.4");
    let run = |arguments: &[&str]| {
        let mut command = bench.bare_command();
        command.args(arguments);
        finish(command)
    };
    run(&["BuildCookRun", "-build"]).ended(1).said(&["ERROR: No project file specified. Use -project=<project>."]);
    run(&["BuildCookRun", "-project=/nowhere/A.uproject"]).ended(1).said(&["ERROR: Could not find a project file /nowhere/A.uproject."]);
    run(&["CookBuildRun"]).ended(3).said(&["AutomationTool exiting with ExitCode=3 (Error_UnknownCommand)"]);
    bench.run(&["-clientconfig=Fast"]).ended(1);
}

#[test]
fn staging_what_was_never_built_is_a_missing_executable() {
    let bench = Bench::plain("UE_5.4");
    bench
        .run(&["-skipbuild"])
        .ended(103)
        .said(&["ERROR: Stage Failed. Missing receipt '", "AutomationTool exiting with ExitCode=103 (Error_MissingExecutable)"]);
    bench.run(&["-skipcook"]).ended(0);
    fs::remove_dir_all(bench.path("Saved/Cooked")).unwrap();
    bench.run(&["-skipcook"]).ended(30).said(&["AutomationTool exiting with ExitCode=30 (Error_StageMissingFile)"]);
}
