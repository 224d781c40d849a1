{{- define "remora.labels" -}}
app.kubernetes.io/name: remora
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "remora.selector" -}}
app.kubernetes.io/name: remora
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "remora.tokens" -}}
{{- .Values.agent.tokensSecret | default (printf "%s-agent-tokens" (include "remora.name" .)) -}}
{{- end }}

{{- define "remora.scheme" -}}
{{- ternary "https" "http" .Values.agent.tls.enabled -}}
{{- end }}

{{- define "remora.name" -}}
{{- printf "%s-remora" .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end }}
