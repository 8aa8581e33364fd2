{{- define "larder.labels" -}}
app.kubernetes.io/name: larder
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "larder.name" -}}
{{ printf "%s-larder" .Release.Name | trunc 50 | trimSuffix "-" }}
{{- end -}}

{{- define "larder.image" -}}
{{- with .Values.image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end -}}
{{- end -}}

{{- define "larder.secret" -}}
{{ .Values.existingSecret | default (include "larder.name" .) }}
{{- end -}}

{{/* Whether there are several nodes. */}}
{{- define "larder.several" -}}
{{ if or .Values.autoscaling.enabled (gt (int .Values.replicas) 1) }}yes{{ end }}
{{- end -}}

{{/* The limit of a container in MiB: 1.15 times the capacity, rounded up, and 64 MiB. */}}
{{- define "larder.limit" -}}
{{- $number := regexFind "^[0-9]+" .Values.memory | int -}}
{{- $mib := ternary (mul $number 1024) $number (hasSuffix "GiB" .Values.memory) -}}
{{ add (div (add (mul $mib 115) 99) 100) 64 }}
{{- end -}}
