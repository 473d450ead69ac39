#!/bin/sh
# Tells Cookhouse of a changelist that was submitted to a Perforce server. Runs on that server, as a change-commit trigger.
#
#   streamvc-trigger.sh TRIGGER_URL TOKEN_FILE CHANGELIST
#
# Install it once for each build setting with `"trigger": "push"`:
#
#   1. Make a token for the setting (POST /auth/tokens with `"scopes": ["trigger"]` and `"buildSettingIds"`), and put it alone
#      into a file that only the server's user may read:   install -m 600 /dev/stdin /p4/etc/cookhouse.token
#   2. As a super user, add one line to `p4 triggers`; the path says which submits count:
#
#        cookhouse change-commit //Games/main/... "/p4/etc/streamvc-trigger.sh https://builds.studio.lan/v1/projects/PROJECT/build-settings/SETTING/trigger /p4/etc/cookhouse.token %changelist%"
#
# It never holds up or fails a submit: it answers at once, calls in the background, tries again for two minutes, and always ends
# with 0. What goes wrong is in TOKEN_FILE.log. A changelist that it could not tell of is found by Cookhouse within ten minutes.
# The token is in no argument, no environment variable and no log. Needs curl.

url=$1
token_file=$2
changelist=$3
log=$token_file.log

complain() {
    # Nobody reads a log that grows without end.
    # Whoever submits reads what is printed: nothing is, also where the log cannot be written.
    {
        if [ -f "$log" ] && [ "$(wc -c <"$log")" -gt 1048576 ]; then : >"$log"; fi
        printf '%s changelist %s: %s\n' "$(date -u +%Y-%m-%dT%H:%M:%SZ)" "$changelist" "$1" >>"$log"
    } 2>/dev/null
}

case $changelist in
'' | *[!0-9]*) exit 0 ;;
esac
case $url in
http://* | https://*) ;;
*)
    complain "the first argument is no address"
    exit 0
    ;;
esac

tell() {
    # Others could start builds with a token that they can read.
    case $(ls -lLd "$token_file" 2>/dev/null) in
    -r?-------*) ;;
    '')
        complain "there is no file $token_file"
        return
        ;;
    *)
        complain "$token_file can be read by others; make it private: chmod 600"
        return
        ;;
    esac
    token=$(tr -d ' \t\r\n' <"$token_file")
    case $token in
    '' | *[!A-Za-z0-9_.~+/=-]*)
        complain "$token_file holds no token"
        return
        ;;
    esac
    # The key makes a repeated call harmless; settings that share a token have keys of their own.
    setting=${url%/trigger}
    setting=$(printf '%s' "${setting##*/}" | tr -cd 'A-Za-z0-9' | cut -c 1-64)
    # curl reads the token from its standard input.
    answer=$(
        printf 'header = "Authorization: Bearer %s"\n' "$token" | curl --config - \
            --silent --show-error --fail --output /dev/null --proto '=http,https' --max-redirs 0 \
            --connect-timeout 5 --max-time 20 --retry 8 --retry-delay 3 --retry-max-time 120 --retry-connrefused \
            --header 'Content-Type: application/json' --header "Idempotency-Key: changelist-$changelist-$setting" \
            --data "{\"changelist\":\"$changelist\"}" --url "$url" 2>&1
    ) || complain "$answer"
}

# The server waits for whoever holds its pipes: the caller in the background gives them up for good. (Redirected as a whole, a
# function's shell would keep them aside for later.)
(
    exec </dev/null >/dev/null 2>&1
    tell
) &
exit 0
