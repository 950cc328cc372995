#!/usr/bin/env bash
# A one-node SLURM with accounting, all of it in one folder: nothing in /etc or /run, no systemd. Needs root.
# usage: cluster_up.sh DIR PORT     four free ports from PORT on; afterwards: export SLURM_CONF=DIR/slurm.conf
# Every daemon runs in its foreground mode in a session of its own; its name and pid are in DIR/pids.
set -euo pipefail
D=$(mkdir -p "$1" && cd "$1" && pwd)
PORT=$2
HOST=$(hostname -s)
MEMORY=$(awk '/MemTotal/{print int($2/1024*0.9)}' /proc/meminfo)
mkdir -p "$D"/{munge,state,spool,log,mysql}
chmod 755 "$D" "$D/munge"  # munge refuses a socket that not everyone can reach
: > "$D/pids"

start() {  # start NAME COMMAND...
  local name=$1; shift
  setsid "$@" > "$D/log/$name.out" 2>&1 < /dev/null & echo "$name $!" >> "$D/pids"
}
wait_for() {  # wait_for SECONDS COMMAND...
  local end=$((SECONDS + $1)); shift
  until timeout 5 "$@" > /dev/null 2>&1; do
    [ $SECONDS -lt $end ] || { echo "gave up: $*" >&2; return 1; }
    sleep 0.1
  done
}

(umask 077; head -c 128 /dev/urandom > "$D/munge/key")
start munged munged --foreground --key-file="$D/munge/key" --socket="$D/munge/socket" \
  --pid-file="$D/munge/pid" --log-file="$D/munge/log" --seed-file="$D/munge/seed"
wait_for 20 munge -S "$D/munge/socket" -n

mariadb-install-db --no-defaults --user=root --datadir="$D/mysql" --auth-root-authentication-method=normal \
  --skip-test-db > "$D/log/mariadb-install.out" 2>&1
start mariadbd mariadbd --no-defaults --user=root --datadir="$D/mysql" --socket="$D/mysql.sock" \
  --pid-file="$D/mysql.pid" --bind-address=127.0.0.1 --port=$((PORT + 3)) \
  --innodb-buffer-pool-size=64M --innodb-lock-wait-timeout=900 --innodb-flush-log-at-trx-commit=0
wait_for 60 mariadb-admin --no-defaults -S "$D/mysql.sock" -u root ping
mariadb --no-defaults -S "$D/mysql.sock" -u root -e \
  "create database slurm_acct_db; create user slurm@'127.0.0.1' identified by 'slurm'; \
   grant all on slurm_acct_db.* to slurm@'127.0.0.1';"

# AccountingStoragePass: the munge socket, as it is not in its usual place. slurmdbd.conf must be readable to root alone.
(umask 077; cat > "$D/slurmdbd.conf" <<CONF
DbdHost=$HOST
DbdAddr=127.0.0.1
DbdPort=$((PORT + 2))
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$D/munge/socket
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort=$((PORT + 3))
StorageUser=slurm
StoragePass=slurm
StorageLoc=slurm_acct_db
LogFile=$D/log/slurmdbd.log
PidFile=$D/slurmdbd.pid
CONF
)
cat > "$D/slurm.conf" <<CONF
ClusterName=test
SlurmctldHost=$HOST(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$D/munge/socket
SlurmctldPort=$PORT
SlurmdPort=$((PORT + 1))
StateSaveLocation=$D/state
SlurmdSpoolDir=$D/spool
SlurmctldPidFile=$D/slurmctld.pid
SlurmdPidFile=$D/slurmd.pid
SlurmctldLogFile=$D/log/slurmctld.log
SlurmdLogFile=$D/log/slurmd.log
MailProg=/bin/true
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort=$((PORT + 2))
AccountingStoragePass=$D/munge/socket
JobAcctGatherType=jobacct_gather/none
JobCompType=jobcomp/none
ReturnToService=2
MinJobAge=3600
KillWait=2
SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0,sched_min_interval=0
GresTypes=gpu
NodeName=$HOST NodeAddr=127.0.0.1 CPUs=2 RealMemory=$MEMORY Gres=gpu:2 State=UNKNOWN
PartitionName=test Nodes=ALL Default=YES MaxTime=1-00:00:00 State=UP
CONF
touch "$D"/gpu{0,1}  # two GPUs that are none, so that jobs which ask for one start
echo "Name=gpu File=$D/gpu[0-1]" > "$D/gres.conf"
export SLURM_CONF="$D/slurm.conf"
start slurmdbd slurmdbd -D
wait_for 60 sacctmgr -n list cluster
sacctmgr -i -Q add cluster test > /dev/null
start slurmctld slurmctld -D -i
start slurmd slurmd -D
wait_for 60 sh -c 'sinfo -h -o %t | grep -qx idle'
