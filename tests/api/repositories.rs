//! The git host seen through the service.

use cookhouse::model::permission::Role;
use serde_json::json;

use super::connected;
use crate::support::repositories::UPROJECT;

#[tokio::test(flavor = "multi_thread")]
async fn repositories_branches_and_project_files_show_under_both_spellings() {
    let (server, admin) = connected().await;
    server.host.add("studio/notes", &[("Readme.md", "x")]);
    for base in ["/gitghost", "/githost"] {
        let first = server.get(&admin, &format!("{base}/repos/studio?limit=1")).await.expect(200).json();
        assert_eq!(
            first["items"],
            json!([{"id": 14, "fullName": "studio/kitchen", "private": true, "defaultBranch": "main", "uprojectDetected": true}])
        );
        let cursor = first["nextCursor"].as_str().expect("more");
        let second = server.get(&admin, &format!("{base}/repos/studio?cursor={cursor}")).await.expect(200).json();
        assert_eq!((&second["items"][0]["uprojectDetected"], &second["nextCursor"]), (&json!(false), &json!(null)));

        let branches = server.get(&admin, &format!("{base}/branches/studio?repoFullName=studio/kitchen&q=MAI")).await.expect(200).json();
        let sha = "0123456789abcdef0123456789abcdef01234567";
        assert_eq!(
            branches,
            json!({"items": [{"name": "main", "commit": {"sha": sha, "message": "Make it better", "author": "Ada"}, "isDefault": true}]})
        );
        let none = server.get(&admin, &format!("{base}/branches/studio?repoFullName=studio/kitchen&q=zzz")).await.expect(200).json();
        assert_eq!(none, json!({"items": []}));

        for query in ["repoFullName=studio/kitchen", "repoFullName=studio/kitchen&branch=main"] {
            let uproject = server.get(&admin, &format!("{base}/uproject/studio?{query}")).await.expect(200).json();
            assert_eq!(
                (&uproject["path"], &uproject["projectName"], &uproject["engineVersion"]),
                (&json!("Game/Kitchen.uproject"), &json!("Kitchen"), &json!("5.4"))
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_there_is_told_by_its_own_code() {
    let (server, admin) = connected().await;
    server.host.add("studio/notes", &[("Readme.md", "x")]);
    server.host.add("studio/several", &[("A.uproject", UPROJECT), ("B.uproject", UPROJECT)]);
    for (path, status, code) in [
        ("/repos/other", 404, "installation_not_found"),
        ("/branches/studio?repoFullName=studio/nothing", 404, "repository_not_found"),
        ("/uproject/studio?repoFullName=studio/kitchen&branch=nothing", 404, "branch_not_found"),
        ("/uproject/studio?repoFullName=studio/notes", 404, "uproject_not_found"),
        ("/uproject/studio?repoFullName=studio/several", 409, "multiple_uprojects"),
        ("/uproject/studio", 400, "validation_failed"),
        ("/uproject/studio?repoFullName=--x/y", 400, "validation_failed"),
        ("/uproject/studio?repoFullName=studio/kitchen&branch=--upload-pack=x", 400, "validation_failed"),
        ("/branches/studio?repoFullName=studio/../kitchen", 400, "validation_failed"),
        ("/repos/studio?limit=0", 400, "invalid_limit"),
    ] {
        let reply = server.get(&admin, &format!("/gitghost{path}")).await;
        assert_eq!((reply.status, reply.code().as_str()), (status, code), "{path}");
    }
    let viewer = server.person(admin.user.organization_id, Role::Viewer).await;
    assert_eq!(server.get(&viewer, "/gitghost/repos/studio").await.code(), "forbidden");
}
