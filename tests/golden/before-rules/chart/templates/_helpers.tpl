{{/* On every object; the selectors of kustomize and chart are the same, so that one can follow the other. */}}
{{- define "sked.labels" -}}
app.kubernetes.io/name: sked
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "sked.image" -}}
{{- with .Values.image -}}
{{- $repository := required "image.repository is not set, and no image of sked is published yet: build one with `make docker-build IMG=registry/repository:tag`, push it, and add --set image.repository=registry/repository,image.tag=tag" .repository -}}
{{- if .digest -}}
{{ $repository }}@{{ .digest }}
{{- else -}}
{{ $repository }}:{{ .tag | default (printf "v%s" $.Chart.AppVersion) }}
{{- end -}}
{{- end -}}
{{- end }}
