#!/bin/bash
# Starts the ZooKeeper of this image with the settings that the official image takes from its
# environment, as far as compose.yaml names them.
set -euo pipefail
settings=/tmp/zoo.cfg
cat >"$settings" <<END
dataDir=/data
dataLogDir=/datalog
clientPort=2181
tickTime=2000
maxClientCnxns=${ZOO_MAX_CLIENT_CNXNS:-60}
admin.enableServer=${ZOO_ADMINSERVER_ENABLED:-false}
4lw.commands.whitelist=${ZOO_4LW_COMMANDS_WHITELIST:-srvr}
autopurge.snapRetainCount=3
autopurge.purgeInterval=${ZOO_AUTOPURGE_PURGEINTERVAL:-0}
END
# The options of the heap are several words.
# shellcheck disable=SC2086
exec java -Djava.awt.headless=true -Dorg.slf4j.simpleLogger.defaultLogLevel=warn \
    -Dorg.slf4j.simpleLogger.showDateTime=true -cp '/opt/jars/*' ${JVMFLAGS:-} \
    org.apache.zookeeper.server.quorum.QuorumPeerMain "$settings"
