{{/* Labels of an object: what selects it, and whose it is. */}}
{{- define "epp.labels" -}}
app.kubernetes.io/name: homing
app.kubernetes.io/component: epp
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}
