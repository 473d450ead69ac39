#!/bin/sh
# Tries the messages with what is not ours: a mail server (aiosmtpd) over STARTTLS with a password, Python's reader of mail,
# the library of Adaptive Cards that Microsoft publishes, and pictures of the HTML mail in Chromium, light and dark.
#
#   tests/notifications/proof/run.sh DIRECTORY      what is installed and made goes there, and nowhere else
#
# Needs python3, node with npm, openssl and chromium; asks PyPI and npm for three packages.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1/samples"
work=$(cd "$1" && pwd)
cd "$here/../../.."

[ -x "$work/python/bin/python" ] || { python3 -m venv "$work/python" && "$work/python/bin/pip" install --quiet aiosmtpd==1.4.6 websockets==15.0.1; }
[ -d "$work/node_modules/adaptivecards" ] || npm install --silent --prefix "$work" adaptivecards@3

# A certificate authority, and a certificate for localhost.
if [ ! -e "$work/server.pem" ]; then
	openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj "/CN=Proof authority" -keyout "$work/ca.key" -out "$work/ca.pem" 2>/dev/null
	openssl req -newkey rsa:2048 -nodes -subj "/CN=localhost" -keyout "$work/server.key" -out "$work/server.csr" 2>/dev/null
	printf 'subjectAltName=DNS:localhost,IP:127.0.0.1\nbasicConstraints=CA:FALSE\n' >"$work/extensions"
	openssl x509 -req -days 2 -in "$work/server.csr" -CA "$work/ca.pem" -CAkey "$work/ca.key" -CAcreateserial \
		-extfile "$work/extensions" -out "$work/server.pem" 2>/dev/null
fi

rm -f "$work"/*.received "$work/port"
"$work/python/bin/python" "$here/mail_server.py" "$work" &
server=$!
trap 'kill "$server" 2>/dev/null' EXIT
while [ ! -s "$work/port" ]; do
	kill -0 "$server"
	sleep 0.1
done
COOKHOUSE_SMTP_PORT=$(cat "$work/port") COOKHOUSE_SMTP_CA=$work/ca.pem COOKHOUSE_SAMPLES=$work/samples \
	cargo nextest run --run-ignored all -E 'test(notifications::samples)'
"$work/python/bin/python" "$here/read_mail.py" "$work"
NODE_PATH=$work/node_modules node "$here/cards.cjs" "$work/samples"
"$work/python/bin/python" "$here/pictures.py" "$work/samples"
