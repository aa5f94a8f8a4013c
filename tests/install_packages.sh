#!/usr/bin/env bash
# Install the Debian packages that some tests run: PostgreSQL for the log, Slurm for the template of agents.
# Only where that can be done (Debian, root); elsewhere those tests are skipped and say why. Nothing is started.
set -uo pipefail

if ((EUID == 0)) && command -v apt-get >/dev/null && command -v flock >/dev/null; then
  exec 9</var/lib/dpkg
  flock 9 # another run may be installing them: half of a package is none
fi
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
timeout 120 apt-get -qq update >/dev/null 2>&1 9<&-
timeout 300 apt-get -qq -o DPkg::Lock::Timeout=200 install --no-install-recommends --yes "${missing[@]}" \
  >/dev/null 2>&1 9<&- ||
  echo "${missing[*]} cannot be had; tests that need them are skipped"
exit 0
