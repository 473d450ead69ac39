#!/bin/sh
# Holds 2,000 slow connections against a real server, in three ways (heads, bodies and answers that never end), and measures an
# honest client meanwhile: a new connection for each request, twenty a second. Fails when a request fails or p99 is 250 ms.
#
#   tests/fuzz/slowhttptest.sh [CONNECTIONS, 2000 unless told] [SECONDS of each attack, 40 unless told]
#
# It needs Debian's `slowhttptest` and python3.
set -eu
cd "$(dirname "$0")/../.."
connections=${1:-2000}
seconds=${2:-40}
. tests/fuzz/server.sh
ulimit -n 16384


echo 'correct horse battery staple' >"$place/password"
"$cookhouse" admin create --data "$place/data" --email ada@kitchen.example --password-file "$place/password" --organization Kitchen
TOKEN=$("$cookhouse" token create --data "$place/data" --email ada@kitchen.example --name honest --scopes read)
export TOKEN
port=$(free_port)
# Limits on how often somebody asks would end most of it at once; here the listener stands alone.
COOKHOUSE_RATE_LIMITS__ENABLED=false "$cookhouse" serve --data "$place/data" --listen "127.0.0.1:$port" --log-level warn >"$place/server.log" 2>&1 &
server=$!
until_it_says "$place/server.log" curl --silent --fail --output /dev/null "http://127.0.0.1:$port/healthz"

code=0
honest() {
    SERVER=$server python3 tests/fuzz/honest_client.py "127.0.0.1:$port" "$2" "$1" || code=1
}
attack() {
    name=$1
    shift
    slowhttptest -c "$connections" -r "$connections" -l "$((seconds + 5))" -p 5 "$@" >"$place/attack.log" 2>&1 &
    attacker=$!
    sleep 5
    honest "$name" "$seconds"
    wait "$attacker" || true
    sed 's/\x1b\[[0-9;]*m//g' "$place/attack.log" | grep -E '^(connected|error|closed|pending|service available)' | tail -5 | tr -s ' \n' ' ' || true
    echo
}
honest "nobody else" 10
attack "slow heads" -H -i 10 -u "http://127.0.0.1:$port/v1/projects"
attack "slow bodies" -B -i 5 -s 1000000 -t POST -f application/json -u "http://127.0.0.1:$port/v1/auth/login"
attack "slow readers" -X -w 1 -y 1 -n 5 -z 1 -k 1 -u "http://127.0.0.1:$port/openapi.json"
kill -0 "$server"
exit "$code"
