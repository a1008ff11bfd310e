{{/* The release's name, which every object's begins with. */}}
{{- define "chordwise.name" -}}
{{- if contains "chordwise" .Release.Name }}{{ .Release.Name }}{{ else }}{{ .Release.Name }}-chordwise{{ end }}
{{- end }}

{{/* Labels that never change. Called with (dict "root" $ "role" NAME). */}}
{{- define "chordwise.selector" -}}
app.kubernetes.io/name: chordwise
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .role }}
{{- end }}

{{- define "chordwise.labels" -}}
{{ include "chordwise.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version }}
{{- end }}

{{- define "chordwise.image" -}}
{{- with .Values.image }}{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ include "chordwise.plain" (.tag | default $.Chart.AppVersion) }}{{ end }}{{ end }}
{{- end }}

{{/* A field `annotations`, whose values may be numbers and booleans. */}}
{{- define "chordwise.annotations" -}}
{{- with . -}}
annotations:
{{- range $name, $value := . }}
  {{ $name }}: {{ include "chordwise.plain" $value | quote }}
{{- end }}
{{- end }}
{{- end }}

{{/* Settings, and the secrets of a role: clock and Flower handle messages alone, the administrator's key is the gateway's. */}}
{{- define "chordwise.environment" -}}
{{- include "chordwise.checkSettings" .root }}
{{- /* A lost node is one lost host. An indexer's host is its pod, because each has an index of its own. */}}
{{- if not (has .role (list "indexer" "migrate")) }}
- {name: CHORDWISE_HOST_NAME, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
{{- end }}
{{- range $name, $value := .root.Values.settings }}
- {name: {{ $name }}, value: {{ include "chordwise.plain" $value | quote }}}
{{- end }}
{{- $stores := list "CHORDWISE_MYSQL_PASSWORD" "CHORDWISE_POSTGRES_PASSWORD" }}
{{- $services := list "CHORDWISE_SECRET_KEY" "CHORDWISE_API_SECRETS" "CHORDWISE_RERANK_API_KEY" "CHORDWISE_EMBEDDING_NEXT_API_KEY" "OPENAI_API_KEY" }}
{{- $needed := list "CHORDWISE_REDIS_PASSWORD" }}
{{- $optional := list "CHORDWISE_BROKER_PASSWORD" }}
{{- if not (has .role (list "clock" "flower")) }}
{{- $needed = concat $needed $stores }}
{{- end }}
{{- if not (has .role (list "clock" "flower" "indexer" "migrate")) }}{{ $optional = concat $optional $services }}{{ end }}
{{- if eq .role "gateway" }}{{ $needed = append $needed "CHORDWISE_ADMIN_KEY" }}{{ $optional = append $optional "CHORDWISE_OIDC" }}{{ end }}
{{- if eq .role "flower" }}{{ $needed = append $needed "FLOWER_BASIC_AUTH" }}{{ end }}
{{- range $needed }}
- {name: {{ . }}, valueFrom: {secretKeyRef: {name: {{ $.root.Values.secretName }}, key: {{ . }}}}}
{{- end }}
{{- /* An address with a password of its own, as sentinels have one, stands in the Secret as a whole. */}}
{{- range list "REDIS" "BROKER" }}
{{- $name := printf "CHORDWISE_%s_URL" . }}
{{- if not (hasKey $.root.Values.settings $name) }}{{ $optional = append $optional $name }}{{ end }}
{{- end }}
{{- range $optional }}
- {name: {{ . }}, valueFrom: {secretKeyRef: {name: {{ $.root.Values.secretName }}, key: {{ . }}, optional: true}}}
{{- end }}
{{- end }}

{{/* What every pod has. */}}
{{- define "chordwise.pod" -}}
serviceAccountName: {{ .root.Values.serviceAccountName }}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets: {{ toJson . }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile: {type: RuntimeDefault}
{{- end }}

{{/* What every container has: no rights, nothing to write but a /tmp in memory. */}}
{{- define "chordwise.container" -}}
image: {{ include "chordwise.image" .root }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}

{{- define "chordwise.tmp" -}}
- {name: tmp, emptyDir: {medium: Memory, sizeLimit: {{ include "chordwise.plain" .Values.tmpSize }}}}
{{- end }}
