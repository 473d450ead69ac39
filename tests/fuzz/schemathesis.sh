#!/bin/sh
# Fuzzes a real server with requests that schemathesis makes of the server's own description, wrong ones too: nothing may be
# a 5xx, an undocumented code or header, or a body that does not fit its schema.
#
#   tests/fuzz/schemathesis.sh [CASES PER OPERATION, 40 unless told] [further words for `st run`]
#
# It downloads schemathesis from PyPI into target/fuzz once, and needs what `cookhouse demo` needs. The server has the
# demo's data: a project, a build setting, a complete build with its artifact. Its git host is gone by then, so what asks
# it is answered with 502, as documented.
set -eu
cd "$(dirname "$0")/../.."
root=$PWD
export SCHEMATHESIS_HOOKS=schemathesis_hooks PYTHONPATH=$root/tests/fuzz
cases=${1:-40}
[ $# -eq 0 ] || shift
venv=${FUZZ_VENV:-$root/target/fuzz/venv}
. tests/fuzz/server.sh

if [ ! -x "$venv/bin/st" ]; then
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet 'schemathesis==4.32.5' 'openapi-spec-validator==0.9.0'
fi


echo "Making data: one build from source to download ..."
"$cookhouse" demo --data "$place/demo" --exit >"$place/demo.log" 2>&1 || { cat "$place/demo.log"; exit 1; }
data=$place/demo/service
token() { "$cookhouse" token create --data "$data" --email chef@kitchen.example --name "$1" --scopes admin; }
main=$(token "the fuzzer")
spare=$(token "the fuzzer's own tokens")

# Nobody is slowed down, builds of no engine end at once, and a full disk is not what is tried here.
export COOKHOUSE_RATE_LIMITS__ENABLED=false COOKHOUSE_DISK__FLOOR_PERCENT=0 COOKHOUSE_DISK__FLOOR_BYTES='64 MiB'
export COOKHOUSE_OUTBOUND__ALLOW_LOOPBACK=true COOKHOUSE_DISCOVER_ENGINES=false COOKHOUSE_METRICS__PUBLIC=true
address=127.0.0.1:$(free_port)
"$cookhouse" serve --data "$data" --listen "$address" --log-level warn >"$place/server.log" 2>&1 &
server=$!
until_it_says "$place/server.log" curl --silent --fail --output "$place/openapi.json" "http://$address/openapi.json"

echo "The document against the meta-schema of OpenAPI 3.1 ..."
"$venv/bin/openapi-spec-validator" "$place/openapi.json"

# One's own token must live to the end: what ends tokens is tried with another one.
# A stream of everything that happens has no end to wait for; tests/live reads it.
endless="--exclude-operation-id followEvents"
ends_tokens="--include-operation-id revokeToken --include-operation-id rotateToken --include-operation-id logOut"
spares_tokens="--exclude-operation-id revokeToken --exclude-operation-id rotateToken --exclude-operation-id logOut"
run() {
    bearer=$1
    shift
    # What it keeps of its runs goes with the rest.
    cd "$place"
    "$venv/bin/st" --config-file "$root/tests/fuzz/schemathesis.toml" run "http://$address/openapi.json" --url "http://$address/v1" \
        --header "Authorization: Bearer $bearer" --checks all --max-examples "$cases" --continue-on-failure --request-timeout 30 "$@"
}
code=0
# shellcheck disable=SC2086
run "$main" $spares_tokens $endless "$@" || code=$?
# shellcheck disable=SC2086
run "$spare" --phases examples,coverage,fuzzing $ends_tokens "$@" || code=$?
if grep -i -E 'panicked|internal' "$place/server.log"; then
    code=1
fi
exit "$code"
