{{- define "trilogue.name" -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "trilogue.config" -}}
{{ .Values.config }}
{{- if .Values.cluster.enabled }}
cluster: {postgresql: env:TRILOGUE_POSTGRESQL, redis: env:TRILOGUE_REDIS}
{{- end }}
{{- if .Values.admin.enabled }}
admin: {key: env:TRILOGUE_ADMIN_KEY, host: 0.0.0.0, port: {{ .Values.admin.port }}}
{{- end }}
{{- end -}}

{{- define "trilogue.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}
