//! Builds that go well: stages, names, log files, incremental second runs.

use std::fs;
use std::process::Command;

use super::{Bench, files, finish};

#[test]
fn a_build_passes_every_stage_and_archives_a_program_that_runs() {
    let bench = Bench::demo("UE_5.4");
    let run = bench.run(&[]);
    run.ended(0).said(&[
        "Running AutomationTool...",
        "Parsing command line: BuildCookRun -project=",
        "Setting up ProjectParams for ",
        "********** BUILD COMMAND STARTED **********",
        "Took ",
        "Build command time: ",
        "********** BUILD COMMAND COMPLETED **********",
        "********** COOK COMMAND STARTED **********",
        "LogCook: Display: Cooked packages 5 Packages Remain 0 Total 5",
        "LogInit: Display: Success - 0 error(s), 0 warning(s)",
        "********** COOK COMMAND COMPLETED **********",
        "********** STAGE COMMAND STARTED **********",
        "********** STAGE COMMAND COMPLETED **********",
        "********** PACKAGE COMMAND STARTED **********",
        "********** PACKAGE COMMAND COMPLETED **********",
        "********** ARCHIVE COMMAND STARTED **********",
        "********** ARCHIVE COMMAND COMPLETED **********",
        "BUILD SUCCESSFUL",
        "AutomationTool executed for 0h ",
        "AutomationTool exiting with ExitCode=0 (Success)",
    ]);
    let expected = [
        "Linux/Kitchen.sh",
        "Linux/Kitchen/Binaries/Linux/Kitchen",
        "Linux/Kitchen/Content/Paks/Kitchen-Linux.pak",
        "Linux/Kitchen/Content/Paks/Kitchen-Linux.ucas",
        "Linux/Kitchen/Content/Paks/Kitchen-Linux.utoc",
        "Linux/Kitchen/Content/Paks/global.ucas",
        "Linux/Kitchen/Content/Paks/global.utoc",
        "Linux/Manifest_NonUFSFiles_Linux.txt",
    ];
    assert_eq!(files(&bench.archived("")), expected);
    let game = Command::new(bench.archived("Linux/Kitchen.sh")).output().unwrap();
    assert!(String::from_utf8_lossy(&game.stdout).contains("Bread is ready after 60 minutes"), "{game:?}");
}

#[test]
fn nothing_that_is_written_or_said_gives_the_stand_in_away() {
    let bench = Bench::demo("UE_5.4");
    let run = bench.run(&[]);
    let told = |bytes: &[u8]| String::from_utf8_lossy(bytes).to_lowercase().replace("stand-in", "standin").contains("standin");
    assert!(!told(&run.ended(0).output) && !told(run.errors.as_bytes()), "{}", run.text());
    for file in files(&bench.archived("")).iter().filter(|file| !file.ends_with("Linux/Kitchen")) {
        assert!(!told(&fs::read(bench.archived(file)).unwrap()), "{file}");
    }
}

#[test]
fn the_log_folder_is_cleared_and_holds_what_was_said() {
    let bench = Bench::demo("UE_5.4");
    fs::create_dir_all(bench.log("old")).unwrap();
    fs::write(bench.log("old/Log_2.txt"), "of a former run").unwrap();
    let run = bench.run(&[]);
    let logs = files(&bench.log(""));
    for name in
        ["Log.txt", "UBT-Kitchen-Linux-Development.txt", "UBT-KitchenEditor-Linux-Development.txt", "FinalCopyLinux_NonUFSFiles.txt"]
    {
        assert!(logs.contains(&name.to_owned()), "{logs:?}");
    }
    assert!(logs.iter().any(|name| name.starts_with("Cook-")) && !logs.iter().any(|name| name.contains("old")), "{logs:?}");
    let log = fs::read_to_string(bench.log("Log.txt")).unwrap();
    assert!(run.text().ends_with(&log) && log.contains("ExitCode=0 (Success)"), "{log}");
}

#[test]
fn a_second_build_compiles_only_what_changed() {
    let bench = Bench::demo("UE_5.4");
    assert_eq!(bench.run(&[]).ended(0).count("Target is up to date"), 0);
    let again = bench.run(&[]);
    assert_eq!((again.ended(0).count("Target is up to date"), again.compiled().len()), (2, 0));

    let mut oven = fs::read_to_string(bench.path("Source/Kitchen/Public/Oven.h")).unwrap();
    oven.push_str("// hot\n");
    bench.write("Source/Kitchen/Public/Oven.h", oven);
    // Once for the editor and once for the game.
    assert_eq!(bench.run(&[]).ended(0).compiled(), ["Kitchen.cpp", "Oven.cpp", "Kitchen.cpp", "Oven.cpp"]);

    let clean = bench.run(&["-clean"]);
    assert_eq!(clean.ended(0).compiled().len(), 7);

    fs::remove_file(bench.path("Source/Kitchen/Private/Recipe.cpp")).unwrap();
    bench.run(&[]).ended(6).said(&[
        "[1/2] Link (lld) libUnrealEditor-Kitchen.so",
        "ld.lld: error: undefined symbol: ",
        ">>> referenced by ",
        "clang++: error: linker command failed with exit code 1 (use -v to see invocation)",
        "Result: Failed (OtherCompilationError)",
    ]);
    bench.run(&["-platform=Win64", "-nocompileeditor"]).ended(6).said(&["Kitchen.exe : fatal error LNK1120: unresolved externals"]);
}

#[test]
fn the_same_input_gives_the_same_containers() {
    let containers = || {
        let bench = Bench::demo("UE_5.4");
        bench.run(&[]).ended(0);
        ["pak", "ucas", "utoc"].map(|kind| fs::read(bench.archived(&format!("Linux/Kitchen/Content/Paks/Kitchen-Linux.{kind}"))).unwrap())
    };
    let first = containers();
    assert_eq!(first, containers());
    let texture = fs::read(super::fixtures().join("projects/demo/Game/Content/Textures/T_Kitchen.uasset")).unwrap();
    assert!(first[1].windows(texture.len()).any(|window| window == texture));
}

#[test]
fn unreal_4_names_things_its_own_way() {
    let bench = Bench::demo("UE_4.27");
    let run = bench.run(&["-iostore"]);
    run.ended(0).said(&["  Building KitchenEditor...".trim_start(), "AutomationTool exiting with ExitCode=0 (Success)"]);
    assert_eq!(run.count("Build command time: ") + run.count("AutomationTool executed for "), 0);
    assert!(run.text().contains("\n  LogCook: Display: "));
    let expected = [
        "LinuxNoEditor/Kitchen.sh",
        "LinuxNoEditor/Kitchen/Binaries/Linux/Kitchen",
        "LinuxNoEditor/Kitchen/Content/Paks/Kitchen-LinuxNoEditor.pak",
        "LinuxNoEditor/Manifest_NonUFSFiles_Linux.txt",
    ];
    assert_eq!(files(&bench.archived("")), expected);
}

#[test]
fn each_platform_and_configuration_has_its_names() {
    let bench = Bench::plain("UE_5.4");
    for (arguments, program, root) in [
        (["-platform=Win64", "-clientconfig=Development"], "Windows/Plain/Binaries/Win64/Plain.exe", "Windows/Plain.exe"),
        (["-platform=win64", "-clientconfig=shipping"], "Windows/Plain/Binaries/Win64/Plain-Win64-Shipping.exe", "Windows/Plain.exe"),
        (
            ["-platform=LinuxArm64", "-clientconfig=DebugGame"],
            "LinuxArm64/Plain/Binaries/LinuxArm64/Plain-LinuxArm64-DebugGame",
            "LinuxArm64/Plain.sh",
        ),
    ] {
        bench.run(&arguments).ended(0);
        assert!(bench.archived(program).is_file() && bench.archived(root).is_file(), "{:?}", files(&bench.archived("")));
    }
    bench.run(&["-platform=LinuxAArch64"]).ended(1).said(&["ERROR: 'LinuxAArch64' is not a valid platform name."]);
    let older = Bench::plain("UE_4.27");
    older.run(&["-platform=LinuxAArch64+Win64"]).ended(0);
    assert!(older.archived("LinuxAArch64NoEditor/Plain.sh").is_file() && older.archived("WindowsNoEditor/Plain.exe").is_file());
}

#[test]
fn a_source_engine_builds_a_server() {
    let bench = Bench::demo("UE_4.27");
    bench.run(&["-server", "-noclient", "-serverplatform=Linux", "-serverconfig=Shipping"]).ended(0);
    assert!(bench.archived("LinuxServer/Kitchen/Binaries/Linux/KitchenServer-Linux-Shipping").is_file());
    assert!(bench.archived("LinuxServer/KitchenServer.sh").is_file());
}

#[test]
fn arguments_are_read_in_any_case_and_stages_run_only_when_named() {
    let bench = Bench::plain("UE_5.4");
    let mut command = bench.bare_command();
    command.args(["buildcookrun", &format!("-PROJECT={}", bench.project.display()), "-Platform=LINUX", "-COOK", "-NoSuchSwitch=7"]);
    let run = finish(command);
    run.ended(0).said(&["********** COOK COMMAND COMPLETED **********"]);
    assert_eq!(run.count("********** "), 2);
    bench.run(&[]).ended(0);
    let run = bench.run(&["-skipcook", "-skipstage"]);
    assert_eq!(run.ended(0).count("********** COOK") + run.count("********** STAGE"), 0);
}
