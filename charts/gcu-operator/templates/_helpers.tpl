{{- /* An image with the host of global.registry, if there is one: .registry, .image. */ -}}
{{- define "gcu-operator.mirrored" -}}
{{- if .registry -}}
{{- printf "%s/%s" .registry (regexReplaceAll "^[^/]+/" .image "") -}}
{{- else -}}
{{- .image -}}
{{- end -}}
{{- end -}}

{{- /* The operator's image. That of a release, with its digest, is an annotation of the chart: a value would stay over an
upgrade with --reuse-values. */ -}}
{{- define "gcu-operator.image" -}}
{{- $image := printf "%s/%s:%s" .Values.image.repository .Values.image.name (.Values.image.tag | default .Chart.AppVersion) -}}
{{- $released := index .Chart.Annotations "topsops.enflame.com/image" | default "" -}}
{{- if and (not .Values.image.digest) (hasPrefix (print $image "@") $released) -}}
{{- $image = $released -}}
{{- else if ne (.Values.image.digest | default "none") "none" -}}
{{- $image = print $image "@" .Values.image.digest -}}
{{- end -}}
{{- include "gcu-operator.mirrored" (dict "registry" .Values.global.registry "image" $image) -}}
{{- end -}}

{{- /* How many managers there may be. */ -}}
{{- define "gcu-operator.replicas" -}}
{{- ternary .Values.autoscaling.maxReplicas .Values.replicaCount .Values.autoscaling.enabled -}}
{{- end -}}

{{- /* A map of a user with the keys of the chart that it lacks: (list USER CHART). */ -}}
{{- define "gcu-operator.with" -}}
{{- $all := index . 1 -}}
{{- range $key, $value := index . 0 -}}
{{- $_ := set $all $key $value -}}
{{- end -}}
{{- toYaml $all -}}
{{- end -}}

{{- define "gcu-operator.imagePullSecrets" -}}
{{- with concat .Values.global.imagePullSecrets .Values.imagePullSecrets -}}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end -}}
{{- end -}}

{{- /* Environment of a program that calls through a proxy. */ -}}
{{- define "gcu-operator.proxy" -}}
{{- range $name, $value := dict "HTTP_PROXY" .Values.proxy.http "HTTPS_PROXY" .Values.proxy.https "NO_PROXY" .Values.proxy.noProxy -}}
{{- if $value }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
{{- end -}}
{{- end -}}

{{- /* Metadata of an object that exists while hooks run: .hooks, .weight. */ -}}
{{- define "gcu-operator.hook" -}}
helm.sh/hook: {{ .hooks }}
helm.sh/hook-weight: {{ .weight | quote }}
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end -}}

{{- /* A Job that runs the manager's program once: .root, .name, .hooks, .resources, .verbs, .args, .file. Its account is there only while
it runs, and has .verbs on .resources, which are grs if there are none. */ -}}
{{- define "gcu-operator.job" -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ .name }}
  namespace: kube-system
  annotations:
    {{- include "gcu-operator.hook" (dict "hooks" .hooks "weight" -2) | nindent 4 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ .name }}
  annotations:
    {{- include "gcu-operator.hook" (dict "hooks" .hooks "weight" -2) | nindent 4 }}
rules:
  - apiGroups: [topsops.enflame.com]
    resources: {{ toJson (.resources | default (list "gcuresources")) }}
    verbs: {{ toJson .verbs }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ .name }}
  annotations:
    {{- include "gcu-operator.hook" (dict "hooks" .hooks "weight" -1) | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {{ .name }}
subjects:
  - kind: ServiceAccount
    name: {{ .name }}
    namespace: kube-system
---
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ .name }}
  namespace: kube-system
  labels:
    app.kubernetes.io/name: gcu-operator-hooks
  annotations:
    {{- include "gcu-operator.hook" (dict "hooks" .hooks "weight" 0) | nindent 4 }}
    helm.sh/hook-output-log-policy: hook-failed
spec:
  backoffLimit: 3
  activeDeadlineSeconds: {{ .root.Values.hooks.timeoutSeconds }}
  # helm deletes it, unless it failed.
  ttlSecondsAfterFinished: 86400
  template:
    metadata:
      labels:
        app.kubernetes.io/name: gcu-operator-hooks
    spec:
      serviceAccountName: {{ .name }}
      restartPolicy: Never
      {{- include "gcu-operator.imagePullSecrets" .root | nindent 6 }}
      securityContext:
        runAsNonRoot: true
        runAsUser: 65532
        seccompProfile:
          type: RuntimeDefault
      {{- with .root.Values.nodeSelector }}
      nodeSelector: {{- toYaml . | nindent 8 }}
      {{- end }}
      tolerations:
        - key: node-role.kubernetes.io/control-plane
          operator: Exists
          effect: NoSchedule
        - key: node-role.kubernetes.io/master
          operator: Exists
          effect: NoSchedule
        {{- with .root.Values.tolerations }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      containers:
        - name: hook
          image: {{ include "gcu-operator.image" .root | quote }}
          imagePullPolicy: {{ .root.Values.image.pullPolicy }}
          command: [/usr/bin/manager]
          args: {{- toYaml .args | nindent 12 }}
          {{- with include "gcu-operator.proxy" .root }}
          env: {{- . | nindent 12 }}
          {{- end }}
          resources:
            requests:
              cpu: 10m
              memory: 32Mi
            limits:
              memory: 128Mi
          securityContext:
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities:
              drop: [ALL]
          {{- with .file }}
          volumeMounts:
            - name: file
              mountPath: /etc/gcu-operator
              readOnly: true
      volumes:
        - name: file
          configMap:
            name: {{ . }}
      {{- end }}
{{- end -}}
