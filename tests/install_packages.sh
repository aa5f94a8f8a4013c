#!/usr/bin/env bash
# Install the Debian packages that some tests run: PostgreSQL for the log, Slurm for the template of agents.
# Only where that can be done (Debian, root); elsewhere those tests are skipped and say why. Nothing is started.
set -uo pipefail

missing=()
compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || missing+=(postgresql)
PATH="$PATH:/usr/sbin" command -v slurmctld >/dev/null || missing+=(slurm-wlm)
((${#missing[@]})) || exit 0
if ((EUID != 0)) || ! command -v apt-get >/dev/null; then
  echo "not installed: ${missing[*]}; tests that need them are skipped"
  exit 0
fi
export DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 # services of packages are not started
echo "installing ${missing[*]}"
timeout 120 apt-get -qq update >/dev/null 2>&1
timeout 300 apt-get -qq install --no-install-recommends --yes "${missing[@]}" >/dev/null 2>&1 ||
  echo "${missing[*]} cannot be had; tests that need them are skipped"
exit 0
