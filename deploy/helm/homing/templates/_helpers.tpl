{{/* Labels that select: of a component of ours. Called with the component's name. */}}
{{- define "homing.selector" -}}
app.kubernetes.io/name: homing
app.kubernetes.io/component: {{ . }}
{{- end }}

{{/* Labels of an object: what selects it, and whose it is. Called with (list $ component). */}}
{{- define "homing.labels" -}}
{{ include "homing.selector" (index . 1) }}
{{ include "homing.owned" (index . 0) }}
{{- end }}

{{- define "homing.owned" -}}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "homing.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{/* Whether workers are found through Kubernetes and NATS, or named one by one. */}}
{{- define "homing.simulated" -}}
{{ if eq .Values.engine "sim" }}true{{ end }}
{{- end }}

{{/* Nobody is root, and nobody needs a privilege. */}}
{{- define "homing.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "homing.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{- define "homing.pull" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* The three probes of a server with one path for being alive and one for being ready. */}}
{{- define "homing.probes" -}}
startupProbe:
  httpGet:
    path: {{ .live }}
    port: {{ .port }}
  periodSeconds: 2
  failureThreshold: 60
livenessProbe:
  httpGet:
    path: {{ .live }}
    port: {{ .port }}
  periodSeconds: 10
  timeoutSeconds: 5
readinessProbe:
  httpGet:
    path: {{ .ready }}
    port: {{ .port }}
  periodSeconds: 5
  timeoutSeconds: 5
{{- end }}

{{- define "homing.bucketKeys" -}}
- name: AWS_ACCESS_KEY_ID
  valueFrom:
    secretKeyRef:
      name: {{ .Values.secrets.bucket }}
      key: access-key-id
      optional: true
- name: AWS_SECRET_ACCESS_KEY
  valueFrom:
    secretKeyRef:
      name: {{ .Values.secrets.bucket }}
      key: secret-access-key
      optional: true
{{- end }}

{{/* Where a monitor says that our namespace counts as the dashboards'. */}}
{{- define "homing.relabelings" -}}
relabelings:
  - targetLabel: namespace
    replacement: {{ .Values.monitoring.countAs }}
{{- end }}

{{- define "homing.fromMonitoring" -}}
- namespaceSelector:
    matchLabels:
      kubernetes.io/metadata.name: {{ .Values.monitoring.namespace }}
{{- end }}

{{/* TensorRT-LLM's settings file: the shared one, with what a layout changes. */}}
{{- define "homing.engineSettings" -}}
{{- $speculation := .Values.gpu.speculation }}
{{- $text := .Files.Get "files/engine.yaml" | replace "free_gpu_memory_fraction: 0.90" (printf "free_gpu_memory_fraction: %s" .Values.gpu.memory) }}
{{- if eq ($speculation.method | default "") "draft_model" }}
{{- $text = $text | replace "disable_overlap_scheduler: false" "disable_overlap_scheduler: true" }}
{{- end }}
{{- $text }}
{{- with .Values.gpu.maxContext }}
{{- printf "max_seq_len: %v\n" . }}
{{- end }}
{{- with $speculation }}
{{- printf "speculative_config:\n  decoding_type: %s\n" (ternary "Draft_Target" "Eagle" (eq .method "draft_model")) }}
{{- printf "  max_draft_len: %v\n  speculative_model_dir: %s\n" .tokens .path }}
{{- end }}
{{- end }}
