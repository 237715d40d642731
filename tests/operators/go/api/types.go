// Package api has the two versions of Shop: v1 is stored, v1alpha1 is converted to it.
package api

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/conversion"
)

const Group = "shops.example.com"

var (
	V1       = schema.GroupVersion{Group: Group, Version: "v1"}
	V1Alpha1 = schema.GroupVersion{Group: Group, Version: "v1alpha1"}
)

type ShopSpec struct {
	Replicas      int32  `json:"replicas"`
	Image         string `json:"image,omitempty"`
	ConfigMapName string `json:"configMapName,omitempty"`
}

type ShopStatus struct {
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
	ReadyReplicas      int32              `json:"readyReplicas,omitempty"`
	ConfigVersion      string             `json:"configVersion,omitempty"`
	Operator           string             `json:"operator,omitempty"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
}

type Shop struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              ShopSpec   `json:"spec"`
	Status            ShopStatus `json:"status,omitempty"`
}

type ShopList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Shop `json:"items"`
}

// OldSpec is the spec of v1alpha1: size became replicas.
type OldSpec struct {
	Size          int32  `json:"size"`
	Image         string `json:"image,omitempty"`
	ConfigMapName string `json:"configMapName,omitempty"`
}

type OldShop struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              OldSpec    `json:"spec"`
	Status            ShopStatus `json:"status,omitempty"`
}

type OldShopList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []OldShop `json:"items"`
}

func AddToScheme(scheme *runtime.Scheme) {
	scheme.AddKnownTypes(V1, &Shop{}, &ShopList{})
	scheme.AddKnownTypeWithName(V1Alpha1.WithKind("Shop"), &OldShop{})
	scheme.AddKnownTypeWithName(V1Alpha1.WithKind("ShopList"), &OldShopList{})
	metav1.AddToGroupVersion(scheme, V1)
	metav1.AddToGroupVersion(scheme, V1Alpha1)
}

func (*Shop) Hub() {}

func (old *OldShop) ConvertTo(hub conversion.Hub) error {
	shop := hub.(*Shop)
	shop.ObjectMeta, shop.Status = old.ObjectMeta, old.Status
	shop.Spec = ShopSpec{Replicas: old.Spec.Size, Image: old.Spec.Image, ConfigMapName: old.Spec.ConfigMapName}
	return nil
}

func (old *OldShop) ConvertFrom(hub conversion.Hub) error {
	shop := hub.(*Shop)
	old.ObjectMeta, old.Status = shop.ObjectMeta, shop.Status
	old.Spec = OldSpec{Size: shop.Spec.Replicas, Image: shop.Spec.Image, ConfigMapName: shop.Spec.ConfigMapName}
	return nil
}

func (status ShopStatus) copy() ShopStatus {
	status.Conditions = append([]metav1.Condition(nil), status.Conditions...)
	return status
}

func (shop *Shop) DeepCopyObject() runtime.Object { return shop.DeepCopy() }

func (shop *Shop) DeepCopy() *Shop {
	return &Shop{shop.TypeMeta, *shop.ObjectMeta.DeepCopy(), shop.Spec, shop.Status.copy()}
}

func (old *OldShop) DeepCopyObject() runtime.Object {
	return &OldShop{old.TypeMeta, *old.ObjectMeta.DeepCopy(), old.Spec, old.Status.copy()}
}

func (list *ShopList) DeepCopyObject() runtime.Object {
	items := make([]Shop, len(list.Items))
	for i := range list.Items {
		items[i] = *list.Items[i].DeepCopy()
	}
	return &ShopList{list.TypeMeta, *list.ListMeta.DeepCopy(), items}
}

func (list *OldShopList) DeepCopyObject() runtime.Object {
	items := make([]OldShop, len(list.Items))
	for i := range list.Items {
		items[i] = *list.Items[i].DeepCopyObject().(*OldShop)
	}
	return &OldShopList{list.TypeMeta, *list.ListMeta.DeepCopy(), items}
}
