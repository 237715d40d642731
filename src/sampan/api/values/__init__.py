"""Values of the API with a text form of their own: quantities, times, durations, cron schedules, integers or strings
(`k8s.io/apimachinery/pkg/api/resource`, `pkg/apis/meta/v1`, `pkg/util/intstr`).
"""
