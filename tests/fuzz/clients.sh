#!/bin/sh
# Generates clients of the API's document with generators that are not ours, compiles them, and has each run a build on a real
# server: openapi-typescript with openapi-fetch (npm), and openapi-python-client (PyPI).
#
#   tests/fuzz/clients.sh
#
# It downloads the generators into target/fuzz once, and needs node, python3 and what `cookhouse demo` needs.
set -eu
cd "$(dirname "$0")/../.."
root=$PWD
. tests/fuzz/server.sh
work=${FUZZ_CLIENTS:-$root/target/fuzz/clients}

mkdir -p "$work"
cd "$work"
if [ ! -x venv/bin/openapi-python-client ]; then
    python3 -m venv venv
    venv/bin/pip install --quiet 'openapi-python-client==0.29.1'
fi
if [ ! -d node_modules/openapi-fetch ]; then
    echo '{"private": true, "type": "module"}' >package.json
    npm install --silent --no-audit --no-fund openapi-typescript@7.13.0 openapi-fetch@0.17.0 typescript@5.9.3 @types/node@20
fi
cp "$root"/tests/fuzz/clients/* .

"$cookhouse" openapi >openapi.json
echo "TypeScript: generate and compile ..."
npx openapi-typescript openapi.json --output api.d.ts
npx tsc --project .
echo "Python: generate ..."
venv/bin/openapi-python-client generate --path openapi.json --output-path cookhouse --meta none --overwrite >python.log 2>&1

echo "A server with something to build ..."
"$cookhouse" demo --data "$place/demo" >"$place/demo.log" 2>&1 &
server=$!
until_it_says "$place/demo.log" grep -q 'Ctrl-C ends everything' "$place/demo.log"
TOKEN=$(sed -n 's/^ *TOKEN=//p' "$place/demo.log")
URL=$(sed -n 's/^ *URL=//p' "$place/demo.log")
export TOKEN URL

echo "TypeScript: a build ..."
node out/build.js
echo "Python: a build ..."
venv/bin/python build.py
