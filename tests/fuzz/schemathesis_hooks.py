"""What no schema can say: well-formed requests that are refused, as the document says in words.

Loaded by schemathesis.sh. The built-in check takes every 400 for them; this one takes only those that give one of the reasons
below.
"""

import schemathesis

# Rules between fields, or between a field and what is stored: the documented code of a detail.
BETWEEN_FIELDS = {"not_allowed", "required"}
# Values that the host's configuration and the organization's data decide.
OF_THE_HOST = {
    "ueVersion",  # the label of an engine
    "defaultProjectSettings.ueVersion",
    "privateKeyPem",  # a key that can be read
    "expiresAt",  # lies in the future
    "streamPath",  # lies in the depot
    "deployTargets",  # plugins that are installed
    "projectIds",  # there are such projects
    "buildSettingIds",
    "platform",  # of a filter: the configuration adds some
    "schedule.timezone",
    "schedule.cron",
    "serverUrl",  # what stands in brackets is an IPv6 address
}
# http is for addresses of the local network, and some addresses are never connected to: no pattern tells them apart.
ADDRESSES = {
    "url",
    "uploadBuildUrl",
    "apiBaseUrl",
    "gitBaseUrl",
    "integrationSettings.slackWebhookUrl",
    "integrationSettings.discordWebhookUrl",
    "integrationSettings.teamsWebhookUrl",
}


@schemathesis.check
def refused_for_a_documented_reason(ctx, response, case):
    if case.meta is None or not case.meta.generation.mode.is_positive or response.status_code != 400:
        return
    error = response.json()["error"]
    # Only the server makes cursors, and positions in a stream.
    if error["code"] == "invalid_cursor":
        return
    strict = "handling=strict" in str((case.headers or {}).get("Prefer", ""))
    for detail in error.get("details", [{"field": "", "code": error["code"]}]):
        if detail["field"] in ADDRESSES and detail["code"] == "invalid_value":
            continue
        if detail["code"] in BETWEEN_FIELDS or detail["field"] in OF_THE_HOST:
            continue
        if detail["code"] == "unknown_field" and strict:
            continue
        raise AssertionError(f"refused without a documented reason: {detail}")
