{{/* The name of the release's own objects. */}}
{{- define "beckon.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* What tells the pods of this release from others; never changes, since a Deployment's selector can't. */}}
{{- define "beckon.selector" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "beckon.labels" -}}
{{ include "beckon.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "beckon.sessionNamespace" -}}
{{- .Values.sessionNamespace | default .Values.watchNamespace | default .Release.Namespace -}}
{{- end -}}

{{/* An image: the digest wins over the tag, the tag over the chart's version. */}}
{{- define "beckon.image" -}}
{{- if .image.digest -}}
{{ .image.repository }}@{{ .image.digest }}
{{- else -}}
{{ .image.repository }}:{{ .image.tag | default .root.Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{/*
A file of config/, for this release: its comments dropped, its objects labelled, the accounts in the release's namespace,
and the stamped extras those of the values.
*/}}
{{- define "beckon.config" -}}
{{- $text := .root.Files.Get .file | required (printf "%s is missing in the chart" .file) -}}
{{- $text = regexReplaceAll "(?m)^\\s*#.*\n" $text "" -}}
{{- $text = $text | replace "system:serviceaccount:beckon-system:" (printf "system:serviceaccount:%s:" .root.Release.Namespace) -}}
{{- $text = $text | replace "namespace: beckon-system" (printf "namespace: %s" .root.Release.Namespace) -}}
{{- $keys := list -}}
{{- range .root.Values.identity.extraKeys -}}{{- $keys = append $keys (squote .) -}}{{- end -}}
{{- $text = $text | replace "['authentication.kubernetes.io/pod-name', 'beckon.dev/person']" (printf "[%s]" (join ", " $keys)) -}}
{{- $labels := include "beckon.labels" .root | nindent 4 -}}
{{- regexReplaceAllLiteral "(?m)^metadata:\n" $text (printf "metadata:\n  labels:%s\n" $labels) | trim -}}
{{- end -}}

{{/*
The flags of one role, from files/settings.yaml, which is generated from the table that the roles parse. A value that is
absent, for instance after `helm upgrade --reuse-values`, or empty is left to the role's own default.
*/}}
{{- define "beckon.settings" -}}
{{- $root := .root -}}
{{- $role := .role -}}
{{- range (fromYaml ($root.Files.Get "files/settings.yaml")).settings }}
{{- if has $role .roles }}
{{- $value := $root.Values }}
{{- range splitList "." .key }}
{{- if kindIs "map" $value }}{{ $value = get $value . }}{{ else }}{{ $value = "" }}{{ end }}
{{- end }}
{{- if or (kindIs "float64" $value) (kindIs "int64" $value) (kindIs "int" $value) }}{{ $value = int64 $value }}{{ end }}
{{- if and (not (kindIs "invalid" $value)) (ne (toString $value) "") }}
- --{{ .flag }}={{ $value }}
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "beckon.securityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
capabilities: {drop: [ALL]}
{{- end -}}
