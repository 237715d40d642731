#!/usr/bin/env bash
# Builds the page of the dashboard from dashboard/web into src/sampan/dashboard/static, which is part of the wheel.
# Nothing is done when the built page is newer than its sources. Without Node it says what is missing, and everything
# but the page works.
set -euo pipefail
cd "$(dirname "$0")/.."
web=dashboard/web
built=src/sampan/dashboard/static/index.html

say() { printf 'dashboard: %s\n' "$*"; }

has_node() { command -v npm >/dev/null && node -e 'const [a, b] = process.versions.node.split("."); process.exit(a > 20 || (a == 20 && b >= 19) ? 0 : 1)'; }

is_built() { [ -e "$built" ] && [ -z "$(find "$web" -name node_modules -prune -o -type f -newer "$built" -print -quit)" ]; }

has_packages() { [ "$web/node_modules/.package-lock.json" -nt "$web/package-lock.json" ]; }

if is_built; then
    say "the page is up to date"
elif has_node; then
    has_packages || npm --prefix "$web" ci --prefer-offline --no-progress --loglevel=error
    npm --prefix "$web" run --silent build -- --logLevel warn
    say "built $(dirname "$built")"
else
    say "the page needs Node 20.19 or later with npm (Debian: apt-get install nodejs npm); everything else works without it" >&2
    exit 1
fi
