// Package v1 has the Guestbook, as `kubebuilder create api` lays it out.
package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var GroupVersion = schema.GroupVersion{Group: "webapp.example.com", Version: "v1"}

type GuestbookSpec struct {
	Title    string `json:"title"`
	Replicas int32  `json:"replicas,omitempty"`
}

type GuestbookStatus struct {
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

type Guestbook struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              GuestbookSpec   `json:"spec"`
	Status            GuestbookStatus `json:"status,omitempty"`
}

type GuestbookList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Guestbook `json:"items"`
}

func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &Guestbook{}, &GuestbookList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}

func (book *Guestbook) DeepCopy() *Guestbook {
	status := GuestbookStatus{Conditions: append([]metav1.Condition(nil), book.Status.Conditions...)}
	return &Guestbook{book.TypeMeta, *book.ObjectMeta.DeepCopy(), book.Spec, status}
}

func (book *Guestbook) DeepCopyObject() runtime.Object { return book.DeepCopy() }

func (list *GuestbookList) DeepCopyObject() runtime.Object {
	items := make([]Guestbook, len(list.Items))
	for i := range list.Items {
		items[i] = *list.Items[i].DeepCopy()
	}
	return &GuestbookList{list.TypeMeta, *list.ListMeta.DeepCopy(), items}
}
