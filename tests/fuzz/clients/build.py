"""Runs a build through a client that was generated from the API's document; clients.sh says how."""

import hashlib
import os
import time
import urllib.request
import uuid

from cookhouse import AuthenticatedClient
from cookhouse.api.build_settings import list_build_settings, trigger_build
from cookhouse.api.builds import get_build, get_build_download, list_builds
from cookhouse.api.projects import list_projects
from cookhouse.api.session_and_tokens import get_me
from cookhouse.models import Error

with AuthenticatedClient(base_url=os.environ["URL"], token=os.environ["TOKEN"]) as api:

    def must(answer):
        assert answer is not None and not isinstance(answer, Error), answer
        return answer

    me = must(get_me.sync(client=api))
    print(f"{me.user.name} of {me.organization.name}, {me.membership.role}")
    project = must(list_projects.sync(client=api, limit=1)).items[0].id
    setting = must(list_build_settings.sync(project, client=api)).items[0].id
    started = must(trigger_build.sync(project, setting, client=api, idempotency_key=str(uuid.uuid4())))
    while (build := must(get_build.sync(started.build_id, client=api))).finished_at is None:
        time.sleep(0.25)
    print(f"{build.id}: {build.status} after {build.duration_ms} ms, {build.log_lines} lines")
    assert build.status == "complete", build.failure
    download = must(get_build_download.sync(build.id, client=api))
    with urllib.request.urlopen(download.url) as artifact:
        content = artifact.read()
    assert len(content) == download.size_bytes and hashlib.md5(content).hexdigest() == download.checksum_md_5
    refused = list_builds.sync(client=api, limit=0)
    assert isinstance(refused, Error) and refused.error.code == "invalid_limit", refused
    print(f"{download.size_bytes} bytes, MD5 {download.checksum_md_5}")
