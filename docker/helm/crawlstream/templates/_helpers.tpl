{{- define "crawlstream.name" -}}
{{- $name := .Release.Name -}}
{{- if not (contains .Chart.Name $name) }}{{ $name = printf "%s-%s" $name .Chart.Name }}{{ end -}}
{{- $name | trunc 40 | trimSuffix "-" -}}
{{- end }}

{{- define "crawlstream.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "crawlstream.labels" -}}
{{ include "crawlstream.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "crawlstream.image" -}}
{{- with .Values.image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end -}}
{{- end }}

{{- define "crawlstream.serviceAccount" -}}
{{- with .Values.serviceAccount -}}
{{ .name | default (ternary (include "crawlstream.name" $) "default" .create) }}
{{- end -}}
{{- end }}

{{/* A value as a variable has it; toString would write large numbers as 5e+07. */}}
{{- define "crawlstream.value" -}}
{{ if kindIs "string" . }}{{ . | quote }}{{ else }}{{ . | toJson | quote }}{{ end }}
{{- end }}

{{/* Variables from Secrets, for every process. */}}
{{- define "crawlstream.secretEnv" -}}
{{- with .Values.redis.passwordSecret }}
- name: REDIS_PASSWORD
  valueFrom: {secretKeyRef: {name: {{ . }}, key: password}}
{{- end }}
{{- with .Values.zookeeper.digestSecret }}
- name: CRAWLSTREAM_ZOOKEEPER_USERNAME
  valueFrom: {secretKeyRef: {name: {{ . }}, key: username}}
- name: CRAWLSTREAM_ZOOKEEPER_PASSWORD
  valueFrom: {secretKeyRef: {name: {{ . }}, key: password}}
{{- end }}
{{- with .Values.kafka.saslSecret }}
- name: CRAWLSTREAM_KAFKA_SASL_USERNAME
  valueFrom: {secretKeyRef: {name: {{ . }}, key: username}}
- name: CRAWLSTREAM_KAFKA_SASL_PASSWORD
  valueFrom: {secretKeyRef: {name: {{ . }}, key: password}}
{{- end }}
{{- range $name, $from := .Values.secretSettings }}
- name: {{ $name }}
  valueFrom: {secretKeyRef: {name: {{ $from.secret }}, key: {{ $from.key }}}}
{{- end }}
{{- end }}

{{/*
A Deployment of one process. Takes a dict: root, component, args, replicas (null: somebody scales
it), grace (seconds), env (list, as YAML), preStop (a command), ports (list), options (resources,
nodeSelector, tolerations, affinity, priorityClassName), surge (of an upgrade); and, where there are
any, image, volumes and mounts (lists).
*/}}
{{- define "crawlstream.deployment" -}}
{{- $root := .root -}}
{{- $name := printf "%s-%s" (include "crawlstream.name" $root) .component -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ $name }}
  labels:
    {{- include "crawlstream.labels" $root | nindent 4 }}
    app.kubernetes.io/component: {{ .component }}
spec:
  {{- if not (kindIs "invalid" .replicas) }}
  replicas: {{ .replicas }}
  {{- end }}
  revisionHistoryLimit: 5
  strategy:
    rollingUpdate: {maxSurge: {{ .surge }}, maxUnavailable: {{ .unavailable }}}
  selector:
    matchLabels:
      {{- include "crawlstream.selector" $root | nindent 6 }}
      app.kubernetes.io/component: {{ .component }}
  template:
    metadata:
      labels:
        {{- include "crawlstream.labels" $root | nindent 8 }}
        app.kubernetes.io/component: {{ .component }}
        crawlstream/role: {{ .role }}
        {{- with $root.Values.podLabels }}{{ toYaml . | nindent 8 }}{{ end }}
      annotations:
        # A changed setting starts the processes anew, one after the other.
        crawlstream/settings: {{ include (print $root.Template.BasePath "/settings.yaml") $root | sha256sum | trunc 16 | quote }}
        {{- with $root.Values.podAnnotations }}{{ toYaml . | nindent 8 }}{{ end }}
    spec:
      serviceAccountName: {{ include "crawlstream.serviceAccount" $root }}
      automountServiceAccountToken: false
      enableServiceLinks: false
      {{- with $root.Values.image.pullSecrets }}
      imagePullSecrets: {{ toYaml . | nindent 8 }}
      {{- end }}
      terminationGracePeriodSeconds: {{ .grace }}
      {{- with .options.priorityClassName }}
      priorityClassName: {{ . }}
      {{- end }}
      {{- with .options.nodeSelector }}
      nodeSelector: {{ toYaml . | nindent 8 }}
      {{- end }}
      {{- with .options.tolerations }}
      tolerations: {{ toYaml . | nindent 8 }}
      {{- end }}
      {{- with .options.affinity }}
      affinity: {{ toYaml . | nindent 8 }}
      {{- end }}
      topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: kubernetes.io/hostname
          whenUnsatisfiable: ScheduleAnyway
          labelSelector:
            matchLabels:
              {{- include "crawlstream.selector" $root | nindent 14 }}
              app.kubernetes.io/component: {{ .component }}
      securityContext:
        runAsNonRoot: true
        runAsUser: 10001
        runAsGroup: 10001
        fsGroup: 10001
        seccompProfile: {{ toJson (.options.seccompProfile | default (dict "type" "RuntimeDefault")) }}
      containers:
        - name: {{ .role }}
          image: {{ .image | default (include "crawlstream.image" $root) }}
          imagePullPolicy: {{ $root.Values.image.pullPolicy }}
          args: {{ toJson .args }}
          envFrom:
            - configMapRef: {name: {{ include "crawlstream.name" $root }}}
          {{- with printf "%s\n%s" (include "crawlstream.secretEnv" $root) .env | trim }}
          env: {{ . | nindent 12 }}
          {{- end }}
          ports:
            - {name: metrics, containerPort: 9100}
            {{- range .ports }}
            - {{ toJson . }}
            {{- end }}
          # Until it has found Kafka and Redis a process answers no probe: it waits, and it is
          # not to be started anew for that.
          startupProbe:
            httpGet: {path: /health/live, port: metrics}
            periodSeconds: 5
            failureThreshold: 120
          livenessProbe:
            httpGet: {path: /health/live, port: metrics}
            periodSeconds: 10
            timeoutSeconds: 5
            failureThreshold: 6
          readinessProbe:
            httpGet: {path: /health/ready, port: metrics}
            periodSeconds: 5
            timeoutSeconds: 5
          {{- with .preStop }}
          lifecycle:
            preStop:
              exec: {command: {{ toJson . }}}
          {{- end }}
          resources: {{ toYaml .options.resources | nindent 12 }}
          securityContext:
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities: {drop: [ALL]}
          volumeMounts:
            # Kept when the container is started anew: there a crawler finds the page that has
            # killed the one before.
            - {name: home, mountPath: /var/lib/crawlstream}
            - {name: tmp, mountPath: /tmp}
            {{- range .mounts }}
            - {{ toJson . }}
            {{- end }}
            {{- range $server := list "kafka" "redis" "zookeeper" }}
            {{- if (index $root.Values $server).caSecret }}
            - {name: {{ $server }}-ca, mountPath: /etc/crawlstream/{{ $server }}, readOnly: true}
            {{- end }}
            {{- end }}
      volumes:
        - name: home
          emptyDir: {sizeLimit: 64Mi}
        - name: tmp
          emptyDir: {sizeLimit: 256Mi}
        {{- range .volumes }}
        - {{ toJson . }}
        {{- end }}
        {{- range $server := list "kafka" "redis" "zookeeper" }}
        {{- with (index $root.Values $server).caSecret }}
        - name: {{ $server }}-ca
          secret: {secretName: {{ . }}}
        {{- end }}
        {{- end }}
{{- end }}

{{/*
All pools of crawlers, those of `spiders` too, without their defaults, as YAML. Who gives a mere
number wants just so many.
*/}}
{{- define "crawlstream.pools" -}}
{{- $pools := deepCopy .Values.crawlers -}}
{{- range $name, $said := .Values.spiders -}}
{{- $pool := get $pools $name | default dict -}}
{{- $spider := get $pool "spider" | default $.Values.crawlerDefaults.spider -}}
{{- if and (hasKey $pools $name) (ne $spider $name) -}}
{{- fail (printf "spiders.%s: the pool crawlers.%s already runs the spider %s: rename the pool" $name $name $spider) -}}
{{- end -}}
{{- $more := ternary $said (dict "replicas" $said "autoscaling" (dict "kind" "none")) (kindIs "map" $said) -}}
{{- $_ := set $pools $name (mergeOverwrite (deepCopy $pool) (deepCopy $more) (dict "spider" $name)) -}}
{{- end -}}
{{- toYaml $pools -}}
{{- end }}

{{/* A pool of crawlers with its defaults, as YAML. Takes a list: root, name. */}}
{{- define "crawlstream.pool" -}}
{{- $root := index . 0 -}}{{- $name := index . 1 -}}
{{- $pool := mergeOverwrite (deepCopy $root.Values.crawlerDefaults) (deepCopy (get (include "crawlstream.pools" $root | fromYaml) $name | default dict)) -}}
{{- if lt (int $pool.terminationGracePeriodSeconds) (add (int $pool.downloadTimeoutSeconds) 10) -}}
{{- fail (printf "crawlers.%s: terminationGracePeriodSeconds (%v) must exceed downloadTimeoutSeconds (%v) by 10 or more" $name $pool.terminationGracePeriodSeconds $pool.downloadTimeoutSeconds) -}}
{{- end -}}
{{- toYaml $pool -}}
{{- end }}
