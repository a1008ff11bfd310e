{{/* A value as the text of an environment variable or a field: Helm reads numbers of a file as floats, and would print a million as 1e+06. */}}
{{- define "chordwise.plain" -}}
{{- if and (kindIs "float64" .) (eq . (floor .)) }}{{ int64 . }}{{ else }}{{ toString . }}{{ end }}
{{- end }}

{{/* Fail with one sentence for a setting that does not belong among `settings`. */}}
{{- define "chordwise.checkSettings" -}}
{{- $secret := .Values.secretName }}
{{- range $name, $value := .Values.settings }}
{{- if regexMatch "_(PASSWORD|KEY|SECRETS?|TOKEN|PAIRS|AUTH|OIDC)$" $name }}
{{- fail (printf "settings.%s is a secret: remove it from the values, and put it into the Secret %q under the key %s (kubectl create secret generic %s --from-literal=%s=...)." $name $secret $name $secret $name) }}
{{- end }}
{{- if regexMatch "[?&]sentinel_password=" (toString $value) }}
{{- fail (printf "settings.%s has a password of the sentinels: set it to null, and put the whole address into the Secret %q under the key %s." $name $secret $name) }}
{{- end }}
{{- if regexMatch "://[^/@:]*:[^@]+@|[?&](password|passwd|pwd|api_?key|token|secret)=" (toString $value) }}
{{- $server := regexFind "MYSQL|POSTGRES|REDIS|BROKER" $name }}
{{- $key := ternary (printf "CHORDWISE_%s_PASSWORD" $server) "" (ne $server "") }}
{{- fail (printf "settings.%s has a password in its address: remove it there%s." $name (ternary (printf ", and put it into the Secret %q under the key %s" $secret $key) "" (ne $server ""))) }}
{{- end }}
{{- if has $name (list "CHORDWISE_GATEWAY_HOST" "CHORDWISE_GATEWAY_PORT" "CHORDWISE_KEYWORD_INDEX_DIR" "CHORDWISE_HOST_NAME") }}
{{- fail (printf "settings.%s is set by the chart itself: remove it from the values." $name) }}
{{- end }}
{{- if not (regexMatch "^(CHORDWISE_[A-Z0-9_]+|OPENAI_BASE_URL|OTEL_TRACES_SAMPLER|OTEL_TRACES_SAMPLER_ARG|OPENBLAS_NUM_THREADS|LC_ALL|TZ)$" $name) }}
{{- fail (printf "settings.%s is no setting: the variables are listed in .env.example." $name) }}
{{- end }}
{{- end }}
{{- end }}
